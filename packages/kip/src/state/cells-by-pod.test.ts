import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Cell } from "./cell.ts";
import { CellsByPod } from "./cells-by-pod.ts";

function cell(uid: string, podUid: string, phase = "Claimed"): Cell {
  return { metadata: { uid }, spec: { podRef: { uid: podUid } }, status: { phase } } as Cell;
}

describe("CellsByPod", () => {
  it("has the newest version of each Cell of a pod, until it is gone", () => {
    const cells = new CellsByPod();
    const [old, first, second] = [cell("1", "p", "Ready"), cell("1", "p"), cell("2", "p")];
    for (const each of [old, first, second, cell("3", "q")]) cells.seen(each);
    assert.deepEqual(cells.of("p"), [first, second]);
    cells.gone(old);
    assert.deepEqual(cells.of("p"), [second]);
    cells.gone(second);
    cells.gone(second);
    assert.deepEqual([cells.of("p"), cells.of("q").length], [[], 1]);
  });
});
