import { hoursPerMonth } from "@kip/instance-types";
import { podOf, type AnyCell } from "../cluster/list-cells.ts";

/** The cost of one or more cells. US dollars. */
export interface Cost {
  readonly perHour: number;
  /** For a whole month. */
  readonly perMonth: number;
  /** Since the cells were created, at their current price. */
  readonly soFar: number;
}

/** The cost of the cells with the same value of a label. */
export interface CostGroup extends Cost {
  /** Undefined for cells without the label. */
  readonly value: string | undefined;
  readonly cells: number;
}

const hourMs = 3_600_000;

/** The cost of a cell since it was created. A cloud may start to bill later, and may bill at least a minute. */
export function costOf({ spec, metadata }: AnyCell, now: number): Cost {
  const perHour = spec.pricePerHour ?? 0;
  const since = Date.parse(metadata.creationTimestamp ?? "");
  const hours = Number.isNaN(since) ? 0 : Math.max(0, now - since) / hourMs;
  return { perHour, perMonth: perHour * hoursPerMonth, soFar: perHour * hours };
}

/** The total cost of cells. */
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

/** The cost of cells by the values of a label, or by the namespace of their pods. The most expensive group comes first. */
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
