import { hoursPerMonth } from "@kip/instance-types";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  clusterOptions,
  helpOption,
  narrowingNamespace,
  selectorOption,
  toggle,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { listCells, podOf, type AnyCell } from "../cluster/list-cells.ts";
import { typeText } from "../get/cell-columns.ts";
import { ageText } from "../output/age.ts";
import { cents, dollars } from "../output/money.ts";
import { tableText, type Column } from "../output/table.ts";
import { costOf, costsBy, sumCosts, type Cost } from "./sum-costs.ts";

export const costCommand: Command = {
  name: "cost",
  synopsis: "[options]",
  summary: "show what each pod's machine costs an hour and a month, and all together",
  details: `From the price that each Cell was chosen by; disks, addresses and traffic are not included. A month has ${hoursPerMonth} hours. SO-FAR counts from
when the Cell was made. Cells that stand by for pods are included, unless -n is given.`,
  options: [
    narrowingNamespace,
    selectorOption,
    { flag: "by", type: "string", help: "sum up by this label of pods, or by namespace" },
    { flag: "output", letter: "o", type: "string", fallback: "table", help: "table or json" },
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["cost", "cost -n shop -l app=web", "cost --by team", "cost --by namespace -o json"],
  run: cost,
};

interface Line extends Cost {
  readonly cells: readonly AnyCell[];
  /** For a line about several cells. */
  readonly title?: string | undefined;
}

async function cost(context: CommandContext): Promise<void> {
  const { options, words, signal, now } = context;
  expectWords(words, [], "cost");
  const output = options.choice("output", ["table", "json"]);
  const key = options.text("by");
  const { client } = await context.cluster();
  const selector = options.text("selector");
  const cells = await listCells(client, { namespace: options.text("namespace"), selector, signal });
  const total = sumCosts(cells.map((cell) => costOf(cell, now)));
  if (output === "json") {
    const items =
      key === undefined ? cells.map((cell) => jsonOf(cell, now)) : costsBy(cells, key, now);
    return context.out(
      `${JSON.stringify({ currency: "USD", hoursPerMonth, items, total }, undefined, 2)}\n`,
    );
  }
  if (cells.length === 0) return context.note("No cells found: nothing costs money by the hour");
  if (key === undefined) {
    const lines = cells.map((cell): Line => ({ cells: [cell], ...costOf(cell, now) }));
    return context.out(
      tableText(cellColumns(now), [...lines, { cells, title: "TOTAL", ...total }]),
    );
  }
  const groups = costsBy(cells, key, now).map(({ value, cells: count, ...sum }) => ({
    value,
    count,
    ...sum,
  }));
  const all = { value: "TOTAL", count: cells.length, ...total };
  context.out(tableText(groupColumns(key), [...groups, all]));
}

const costColumns: readonly Column<Cost>[] = [
  { name: "PER-HOUR", isNumber: true, text: ({ perHour }) => dollars(perHour) },
  { name: "PER-MONTH", isNumber: true, text: ({ perMonth }) => cents(perMonth) },
  { name: "SO-FAR", isNumber: true, text: ({ soFar }) => cents(soFar) },
];

function cellColumns(now: number): readonly Column<Line>[] {
  const ofCell =
    (text: (cell: AnyCell) => string | undefined) =>
    ({ cells: [cell], title }: Line): string | undefined =>
      title !== undefined || cell === undefined ? "-" : text(cell);
  return [
    {
      name: "NAMESPACE",
      text: ({ title, cells: [cell] }) => title ?? (cell && podOf(cell)?.namespace),
    },
    { name: "POD", text: ofCell((cell) => podOf(cell)?.name ?? "(stands by)") },
    { name: "INSTANCE-TYPE", text: ofCell(typeText) },
    { name: "AGE", text: ofCell(({ metadata }) => ageText(metadata.creationTimestamp, now)) },
    ...costColumns,
    { name: "CELL", text: ofCell(({ metadata }) => metadata.name) },
  ];
}

function groupColumns(
  key: string,
): readonly Column<Cost & { readonly value: string | undefined; readonly count: number }>[] {
  return [
    { name: key.toUpperCase(), text: ({ value }) => value },
    { name: "CELLS", isNumber: true, text: ({ count }) => String(count) },
    ...costColumns,
  ];
}

function jsonOf(cell: AnyCell, now: number): object {
  const { instanceType, launchType } = cell.spec;
  const pod = podOf(cell);
  return {
    namespace: pod?.namespace,
    pod: pod?.name,
    cell: cell.metadata.name,
    instanceType,
    launchType,
    ...costOf(cell, now),
  };
}
