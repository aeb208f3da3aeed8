import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { decodeLine } from "@kip/network-view";
import { GroupLines } from "./group-lines.ts";

/** Notes a change of the group. */
function change(lines: GroupLines, version: number, add: string[], remove: string[] = []): void {
  lines.change({ add, remove, isChanged: true, isReranked: false, bytes: 0 }, version);
}

/** What a cell has after some lines. */
function applied(lines: Buffer, before: Iterable<string>): ReadonlySet<string> {
  const has = new Set(before);
  for (const text of lines.toString().split("\n").slice(0, -1)) {
    const line = decodeLine(text);
    assert.ok(line.kind === "group" && line.change !== "gone");
    if (line.change === "reset") has.clear();
    for (const address of line.add) has.add(address);
    for (const address of line.remove) has.delete(address);
  }
  return has;
}

const address = (i: number): string => `10.0.${i >> 8}.${i & 255}`;
const manyAddresses = Array.from({ length: 3000 }, (_, i) => address(i));

describe("GroupLines", () => {
  it("keeps nothing for versions in which the group did not change", () => {
    const lines = new GroupLines("g", ["10.0.0.1", "10.0.0.3"]);
    change(lines, 5, ["10.0.0.2"]);
    assert.match(lines.since(4).toString(), /10\.0\.0\.2/);
    const nothing = new Set(Array.from({ length: 100 }, (_, i) => lines.since(5 + i)));
    assert.equal(nothing.size, 1);
    assert.deepEqual([...nothing], [Buffer.alloc(0)]);
  });

  it("gives cells the same bytes that are at other versions with the same addresses", () => {
    const lines = new GroupLines("g", manyAddresses);
    change(lines, 5, ["10.1.0.1"]);
    change(lines, 300, [], manyAddresses.slice(2000));
    const given = new Set(Array.from({ length: 295 }, (_, i) => lines.since(5 + i)));
    assert.equal(given.size, 1);
    assert.notEqual(lines.since(4), lines.since(5));
  });

  it("encodes few differences, however many versions cells are at, in whatever order they ask", () => {
    for (const order of [1, -1]) {
      const lines = new GroupLines("g", manyAddresses);
      const versions = Array.from({ length: 500 }, (_, i) => i + 1);
      for (const version of versions) change(lines, version, [`10.2.0.${version}`]);
      change(lines, 501, [], manyAddresses.slice(0, 1500));
      const given = new Set(
        versions.toSorted((a, b) => order * (a - b)).map((v) => lines.since(v)),
      );
      assert.ok(given.size <= 9, String(given.size));
    }
  });

  it("sends the whole group where that is less", () => {
    const lines = new GroupLines("g", manyAddresses);
    change(lines, 1, [], manyAddresses);
    assert.equal(lines.since(0).toString(), '["group","g","reset",[]]\n');
  });

  it("does not remember thousands of changes of a small group", () => {
    const lines = new GroupLines("g", []);
    for (let version = 1; version < 1000; version += 2) {
      change(lines, version, [address(0)]);
      change(lines, version + 1, [], [address(0)]);
    }
    assert.equal(lines.since(500).toString(), '["group","g","reset",[]]\n');
    assert.equal(lines.since(999).toString(), '["group","g","change",[],["10.0.0.0"]]\n');
  });

  it("brings a cell of any version up to date", () => {
    const step = fc.array(fc.nat(9), { minLength: 1, maxLength: 9 });
    const cells = fc.array(fc.nat(40), { minLength: 1, maxLength: 40 });
    const check = (steps: readonly number[][], asked: readonly number[]): void => {
      const lines = new GroupLines("g", [address(0), address(1)]);
      const states = [new Set([address(0), address(1)])];
      for (const [index, flipped] of steps.entries()) {
        const state = new Set(states.at(-1));
        const changed = [...new Set(flipped)].map(address);
        const remove = changed.filter((each) => state.has(each));
        const add = changed.filter((each) => !state.has(each));
        for (const each of remove) state.delete(each);
        for (const each of add) state.add(each);
        states.push(state);
        change(lines, index + 1, add, remove);
      }
      const now = states.at(-1);
      for (const version of asked.map((each) => each % states.length))
        assert.deepEqual(applied(lines.since(version), states[version] ?? []), now);
    };
    fc.assert(fc.property(fc.array(step, { maxLength: 40 }), cells, check), { numRuns: 500 });
  });
});
