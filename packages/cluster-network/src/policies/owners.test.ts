import assert from "node:assert/strict";
import { it } from "node:test";
import { Owners } from "./owners.ts";

it("Owners have the same key if they are the same, in whatever order they came, and however often each was noted", () => {
  const [one, other, none] = [new Owners(), new Owners(), new Owners()];
  for (const name of ["", "a", "b", "a"]) one.note(name, 1);
  for (const name of ["b", "c", "a", ""]) other.note(name, 1);
  assert.notEqual(one.key, other.key);
  other.note("c", -1);
  assert.equal(one.key, other.key);
  one.note("a", -1);
  assert.equal(one.key, other.key);
  one.note("a", -1);
  assert.notEqual(one.key, other.key);
  assert.deepEqual([...one.names()].sort(), ["", "b"]);
  for (const name of ["", "b", "z"]) one.note(name, -1);
  assert.equal(one.key, none.key);
});
