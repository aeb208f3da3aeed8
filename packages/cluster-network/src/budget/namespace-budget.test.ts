import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NamespaceBudget } from "./namespace-budget.ts";

const most = { elements: 100, bytes: 1000 };
const elements = (count: number) => ({ elements: count, bytes: 1 });
/** Months of one year. */
const at = (month: number): string => `2026-${String(month).padStart(2, "0")}-01T00:00:00Z`;

describe("NamespaceBudget", () => {
  it("refuses the youngest Services, by their time of creation and then by name, in whatever order they come", () => {
    const services = [
      ["a/z", at(1)],
      ["a/y", at(2)],
      ["a/b", at(3)],
      ["a/c", at(3)],
    ] as const;
    for (const order of [services, services.toReversed()]) {
      const budget = new NamespaceBudget(most);
      for (const [key, created] of order) budget.set(key, created, elements(30));
      assert.deepEqual(budget.settle(), { refused: ["a/c"], admitted: [] });
      assert.equal(budget.isRefused("a/c"), true);
      assert.equal(budget.refusedCount("a"), 1);
    }
  });

  it("keeps the place of older Services, however large a younger one is", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/old", at(1), elements(60));
    budget.settle();
    budget.set("a/large", at(2), elements(90));
    budget.set("a/small", at(3), elements(40));
    assert.deepEqual(budget.settle(), { refused: ["a/large"], admitted: [] });
  });

  it("refuses a Service that is too large alone, and no other", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/large", at(1), elements(101));
    budget.set("a/small", at(2), elements(100));
    assert.deepEqual(budget.settle().refused, ["a/large"]);
  });

  it("reports younger Services that no longer fit when an older one grows, and those that fit again", () => {
    const budget = new NamespaceBudget(most);
    for (const month of [1, 2, 3, 4]) budget.set(`a/${month}`, at(month), elements(25));
    assert.deepEqual(budget.settle(), { refused: [], admitted: [] });
    budget.set("a/1", at(1), elements(50));
    assert.deepEqual(budget.settle(), { refused: ["a/4"], admitted: [] });
    budget.set("a/2", at(2), undefined);
    assert.deepEqual(budget.settle(), { refused: [], admitted: ["a/4"] });
    assert.equal(budget.isExceeded("a"), false);
    budget.set("a/1", at(1), elements(25));
    assert.deepEqual(budget.settle(), { refused: [], admitted: [] });
  });

  it("ranks a Service that was made again under its name as a new one", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/1", at(1), elements(60));
    budget.set("a/2", at(2), elements(60));
    assert.deepEqual(budget.settle().refused, ["a/2"]);
    budget.set("a/1", at(3), elements(60));
    assert.deepEqual(budget.settle(), { refused: ["a/1"], admitted: ["a/2"] });
  });

  it("also counts bytes, and counts each namespace separately", () => {
    const budget = new NamespaceBudget(most);
    for (const namespace of ["a", "b"])
      for (const month of [1, 2])
        budget.set(`${namespace}/${month}`, at(month), {
          elements: 1,
          bytes: namespace === "a" ? 501 : 500,
        });
    assert.deepEqual(budget.settle().refused, ["a/2"]);
  });

  it("has the same result as a full computation, whatever changes", () => {
    const budget = new NamespaceBudget(most);
    const known = new Map<string, { created: string; cost: number }>();
    const refused = new Set<string>();
    let seed = 7;
    const random = (below: number): number =>
      (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
    for (let round = 0; round < 2000; round++) {
      for (let i = random(3); i >= 0; i--) {
        const key = `a/${random(12)}`;
        const created = known.get(key)?.created ?? at(1 + random(12));
        const cost = random(40);
        if (random(4) === 0) known.delete(key);
        else known.set(key, { created, cost });
        budget.set(key, created, known.has(key) ? elements(cost) : undefined);
        if (!known.has(key)) refused.delete(key);
      }
      const { refused: lost, admitted } = budget.settle();
      for (const key of lost) refused.add(key);
      for (const key of admitted) refused.delete(key);
      let sum = 0;
      const wanted = [...known]
        .sort(([a, x], [b, y]) => (`${x.created} ${a}` < `${y.created} ${b}` ? -1 : 1))
        .filter(([, { cost }]) => sum + cost > most.elements || ((sum += cost), false))
        .map(([key]) => key);
      assert.deepEqual([...refused].sort(), wanted.sort());
      assert.equal(budget.refusedCount("a"), wanted.length);
      for (const key of known.keys()) assert.equal(budget.isRefused(key), refused.has(key));
    }
  });
});
