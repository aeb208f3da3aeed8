import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { ChangeReader, encodeLine } from "@kip/network-view";
import { changesIn } from "./changes-in.ts";

describe("changesIn()", () => {
  it("lets other work pass while it reads many Services, and gives whole changes", async () => {
    const endpoints = Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`);
    const ports = [{ name: "", protocol: "TCP", port: 80, endpoints }] as const;
    const lines = Array.from({ length: 100 }, (_, i) =>
      encodeLine({ kind: "service", key: `ns/s${i}`, view: { clusterIps: [], ports } }),
    );
    const piece = Buffer.from([...lines, encodeLine({ kind: "end", number: 1 })].join(""));
    let turns = 0;
    const state = { isOver: false };
    const count = async (): Promise<void> => {
      for (; !state.isOver; turns++) await setImmediate();
    };
    const counted = count();
    const sizes: number[] = [];
    for await (const change of changesIn([piece], new ChangeReader()))
      sizes.push(change.services.size);
    state.isOver = true;
    await counted;
    assert.deepEqual(sizes, [100]);
    assert.ok(turns >= piece.length / (256 * 1024) - 1, String(turns));
  });
});
