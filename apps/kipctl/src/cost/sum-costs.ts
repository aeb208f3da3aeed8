import { hoursPerMonth } from "@kip/instance-types";
import { podOf, type AnyCell } from "../cluster/list-cells.ts";

/** What a cell costs, or several together. US dollars. */
export interface Cost {
  readonly perHour: number;
  /** If it ran for a whole month. */
  readonly perMonth: number;
  /** Since the cells were made, at the price they have. */
  readonly soFar: number;
}

/** What the cells with one value of a label cost. */
export interface CostGroup extends Cost {
  /** Undefined: the cells without the label. */
  readonly value: string | undefined;
  readonly cells: number;
}

const hourMs = 3_600_000;

/** What a cell costs from when it was made. A cloud may bill less at its start, and a minute at least. */
export function costOf({ spec, metadata }: AnyCell, now: number): Cost {
  const perHour = spec.pricePerHour ?? 0;
  const since = Date.parse(metadata.creationTimestamp ?? "");
  const hours = Number.isNaN(since) ? 0 : Math.max(0, now - since) / hourMs;
  return { perHour, perMonth: perHour * hoursPerMonth, soFar: perHour * hours };
}

/** What cells cost together. */
export function sumCosts(costs: readonly Cost[]): Cost {
  return costs.reduce(
    (sum, { perHour, perMonth, soFar }) => ({
      perHour: sum.perHour + perHour,
      perMonth: sum.perMonth + perMonth,
      soFar: sum.soFar + soFar,
    }),
    { perHour: 0, perMonth: 0, soFar: 0 },
  );
}

/** What cells cost by the values of a label, or by the namespace of their pods; the dearest first. */
export function costsBy(cells: readonly AnyCell[], key: string, now: number): readonly CostGroup[] {
  const groups = Map.groupBy(cells, (cell) =>
    key === "namespace" ? podOf(cell)?.namespace : cell.metadata.labels?.[key],
  );
  const sums = [...groups].map(([value, members]) => ({
    value,
    cells: members.length,
    ...sumCosts(members.map((cell) => costOf(cell, now))),
  }));
  return sums.sort((a, b) => b.perHour - a.perHour);
}
