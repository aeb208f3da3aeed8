import type { Pod } from "@kip/k8s-types";
import { bytes, milliCpu } from "@kip/base";
import type { Cell } from "@kip/kip/cell";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  clusterOptions,
  helpOption,
  narrowingNamespace,
  selectorOption,
  toggle,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { typeText } from "../get/cell-columns.ts";
import { cellsByPod, listCells } from "../cluster/list-cells.ts";
import { listKipPods } from "../cluster/list-pods.ts";
import { cpuText, mebibytesText } from "../output/amounts.ts";
import { dollars } from "../output/money.ts";
import { tableText, type Column } from "../output/table.ts";
import { readUsage } from "./read-usage.ts";
import { shareText, totalRequest } from "./pod-requests.ts";
import type { PodUsage } from "./stats-summary.ts";

export const topCommand: Command = {
  name: "top",
  synopsis: "[options]",
  summary: "show what each pod uses of its machine, and of what it asked for",
  details: `From /stats/summary of each node of kip, through the API server: no metrics-server is needed, but the right to get nodes/proxy.
Takes six seconds if no program has asked lately. The pods that use most processor time come first. CPU% and MEMORY% are of what the pod requests.`,
  options: [
    {
      flag: "sort-by",
      type: "string",
      fallback: "cpu",
      help: "cpu or memory",
    },
    narrowingNamespace,
    selectorOption,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["top", "top -n shop --sort-by=memory", "top -l app=web"],
  run: top,
};

interface TopRow {
  readonly usage: PodUsage;
  readonly pod: Pod;
  readonly cell: Cell | undefined;
}

const columns: readonly Column<TopRow>[] = [
  { name: "NAMESPACE", text: ({ pod }) => pod.metadata.namespace },
  { name: "NAME", text: ({ pod }) => pod.metadata.name },
  { name: "CPU", isNumber: true, text: ({ usage }) => cpuText(usage.cpuNanoCores) },
  {
    name: "CPU%",
    isNumber: true,
    text: ({ usage, pod }) =>
      shareText((usage.cpuNanoCores ?? Number.NaN) / 1e6, totalRequest(pod, "cpu", milliCpu)),
  },
  { name: "MEMORY", isNumber: true, text: ({ usage }) => mebibytesText(usage.memoryBytes) },
  {
    name: "MEMORY%",
    isNumber: true,
    text: ({ usage, pod }) =>
      shareText(usage.memoryBytes ?? Number.NaN, totalRequest(pod, "memory", bytes)),
  },
  { name: "DISK", isNumber: true, text: ({ usage }) => mebibytesText(usage.diskBytes) },
  { name: "INSTANCE-TYPE", text: ({ cell }) => cell && typeText(cell) },
  { name: "PER-HOUR", isNumber: true, text: ({ cell }) => cell && dollars(cell.spec.pricePerHour) },
  { name: "CELL", text: ({ cell }) => cell?.metadata.name },
];

async function top(context: CommandContext): Promise<void> {
  const { options, words, signal } = context;
  expectWords(words, [], "top");
  const order = options.choice("sort-by", ["cpu", "memory"]);
  const { client } = await context.cluster();
  const namespace = options.text("namespace");
  const [usage, pods, cells] = await Promise.all([
    readUsage(client, { namespace, signal, note: (line) => context.note(line) }),
    listKipPods(client, { namespace, selector: options.text("selector"), signal }),
    listCells(client, { namespace, signal }),
  ]);
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid, pod]));
  const cellOf = cellsByPod(cells);
  const rows = usage.flatMap((each): readonly TopRow[] => {
    const pod = byUid.get(each.podRef.uid);
    return pod ? [{ usage: each, pod, cell: cellOf.get(each.podRef.uid) }] : [];
  });
  const figure = ({ usage: { cpuNanoCores = 0, memoryBytes = 0 } }: TopRow): number =>
    order === "cpu" ? cpuNanoCores : memoryBytes;
  if (rows.length === 0) return context.note("No pod runs that a node of kip knows the usage of");
  context.out(
    tableText(
      columns,
      rows.sort((a, b) => figure(b) - figure(a)),
    ),
  );
}
