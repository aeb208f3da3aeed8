import assert from "node:assert/strict";
import { it } from "node:test";
import { Numbering, BitSet } from "./bit-set.ts";

it("BitSet has the numbers that were added and not deleted, whatever their size", () => {
  const set = new BitSet();
  const all = [0, 7, 8, 63, 64, 65, 1000, 100_000];
  for (const number of all) set.add(number);
  assert.deepEqual(
    all.filter((number) => !set.has(number)),
    [],
  );
  assert.deepEqual([...set.values()], all);
  for (const number of [1, 9, 62, 99_999, 100_001, 1e6]) assert.equal(set.has(number), false);
  set.delete(64);
  set.delete(1e6);
  assert.deepEqual(
    all.filter((number) => !set.has(number)),
    [64],
  );
});

it("Numbering gives each name a number of its own, and those of released names again", () => {
  const numbering = new Numbering();
  const names = ["a", "b", "c"];
  assert.deepEqual(
    names.map((name) => numbering.of(name)),
    [0, 1, 2],
  );
  numbering.release("a");
  numbering.release("none");
  assert.equal(numbering.nameOf(1), "b");
  assert.deepEqual(
    ["c", "d", "e", "b"].map((name) => numbering.of(name)),
    [2, 0, 3, 1],
  );
});
