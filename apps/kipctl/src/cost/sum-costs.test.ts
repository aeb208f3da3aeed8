import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cellWith } from "../testing/cell-with.ts";
import { costOf, costsBy, sumCosts } from "./sum-costs.ts";

const twoHours = Date.parse("2026-01-01T02:00:00Z");
const priced = (
  name: string,
  pricePerHour: number,
  labels: Readonly<Record<string, string>> = {},
) => cellWith({ name, labels, spec: { pricePerHour } });

describe("costOf()", () => {
  it("counts from when the cell was made", () => {
    assert.deepEqual(costOf(priced("a", 0.5), twoHours), { perHour: 0.5, perMonth: 365, soFar: 1 });
  });

  it("is nothing so far for a cell of the future, as clocks differ", () => {
    assert.equal(costOf(priced("a", 0.5), 0).soFar, 0);
  });
});

describe("sumCosts()", () => {
  it("adds all figures up", () => {
    const costs = [priced("a", 0.5), priced("b", 0.25)].map((cell) => costOf(cell, twoHours));
    assert.deepEqual(sumCosts(costs), { perHour: 0.75, perMonth: 547.5, soFar: 1.5 });
    assert.deepEqual(sumCosts([]), { perHour: 0, perMonth: 0, soFar: 0 });
  });
});

describe("costsBy()", () => {
  const cells = [priced("a", 1, { team: "x" }), priced("b", 2), priced("c", 0.5, { team: "x" })];

  it("groups by a label, the dearest first, with those that lack it", () => {
    const groups = costsBy(cells, "team", twoHours);
    assert.deepEqual(
      groups.map(({ value, cells: count, perHour }) => [value, count, perHour]),
      [
        [undefined, 1, 2],
        ["x", 2, 1.5],
      ],
    );
  });

  it("groups by namespace", () => {
    assert.deepEqual(
      costsBy(cells, "namespace", twoHours).map(({ value, cells: count }) => [value, count]),
      [["shop", 3]],
    );
  });
});
