import { ignoreNotFound, paths, type KubeObject } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  allNamespaces,
  clusterOptions,
  helpOption,
  namespaceOption,
  selectorOption,
  toggle,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { cellsByPod, listCells, type AnyCell } from "../cluster/list-cells.ts";
import { listKipEvents } from "../cluster/list-events.ts";
import { listKipPods } from "../cluster/list-pods.ts";
import { KipctlError } from "../errors.ts";
import { objectsText, outputOf, type Output } from "../output/print-objects.ts";
import { tableText, type Column } from "../output/table.ts";
import { metricColumns } from "../top/metric-columns.ts";
import { readUsage } from "../top/read-usage.ts";
import { cellColumns, nodeColumns } from "./cell-columns.ts";
import { eventColumns } from "./event-columns.ts";
import { kindOf, objectKinds, type KindName } from "./kinds.ts";
import { podColumns, type PodRow } from "./pod-columns.ts";

export const getCommand: Command = {
  name: "get",
  synopsis: "KIND [NAME...] [options]",
  summary: "show cells, pods, events or usage: cells, pods, nodes, events, metrics",
  details: `KIND is one of
  cells, cell, cl      cells, with the columns of kubectl get cells; of all namespaces, unless -n is given
  pods, pod, po        pods on nodes of kip, each with its cell as NODE
  nodes, node, no      cells again, with the columns that the original's nodes had
  events, event, ev    what kip and its cells reported of pods, the newest 4000
  metrics, metric      what pods use now`,
  options: [
    {
      flag: "output",
      letter: "o",
      type: "string",
      fallback: "table",
      help: "table, wide, json, yaml or name",
    },
    namespaceOption,
    allNamespaces,
    selectorOption,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: [
    "get cells -o wide",
    "get pods -A",
    "get events -n shop",
    "get node cell-0b1c -o yaml",
  ],
  run: get,
};

async function get(context: CommandContext): Promise<number> {
  const { words, options } = context;
  const [word = "", ...names] = words;
  expectWords(words.slice(0, 1), ["KIND"], "get");
  const kind = kindOf(word);
  const request = { kind, names: new Set(names), output: outputOf(options) };
  return await printers[kind](context, request);
}

interface Request {
  readonly kind: KindName;
  /** Empty: all. */
  readonly names: ReadonlySet<string>;
  readonly output: Output;
}

const printers: Readonly<
  Record<KindName, (context: CommandContext, request: Request) => Promise<number>>
> = { cells: getCells, nodes: getCells, pods: getPods, events: getEvents, metrics: getMetrics };

async function getCells(context: CommandContext, request: Request): Promise<number> {
  const { options, signal, now } = context;
  const { client } = await context.cluster();
  const namespace = options.isSet("all-namespaces") ? undefined : options.text("namespace");
  const selector = options.text("selector");
  const [only, ...others] = request.names;
  const isOne = only !== undefined && others.length === 0;
  const cells = isOne
    ? await ignoreNotFound(client.get<AnyCell>(paths.cells(only), { signal })).then((cell) =>
        cell ? [cell] : [],
      )
    : await listCells(client, { namespace, selector, signal });
  const columns = request.kind === "cells" ? cellColumns(now) : nodeColumns(now);
  return print(context, request, { objects: cells, rows: cells, columns });
}

async function getPods(context: CommandContext, request: Request): Promise<number> {
  const { options, signal, now } = context;
  const { client } = await context.cluster();
  const namespace = await namespaceOf(context);
  const [pods, cells] = await Promise.all([
    listKipPods(client, { namespace, selector: options.text("selector"), signal }),
    listCells(client, { namespace, signal }),
  ]);
  const cellOf = cellsByPod(cells);
  const rows = pods.map((pod): PodRow => ({ pod, cell: cellOf.get(pod.metadata.uid) }));
  const columns = podColumns(now, namespace === undefined);
  return print<PodRow>(context, request, { objects: pods, rows, columns });
}

async function getEvents(context: CommandContext, request: Request): Promise<number> {
  const { signal } = context;
  const { client } = await context.cluster();
  const namespace = await namespaceOf(context);
  const events = await listKipEvents(client, { namespace, signal });
  const columns = eventColumns(namespace === undefined);
  return print(context, request, { objects: events, rows: events, columns });
}

async function getMetrics(context: CommandContext, request: Request): Promise<number> {
  const { signal } = context;
  const { client } = await context.cluster();
  const namespace = await namespaceOf(context);
  const usage = await readUsage(client, { namespace, signal, note: (line) => context.note(line) });
  const { names, output } = request;
  const chosen = usage.filter(({ podRef }) => names.size === 0 || names.has(podRef.name));
  if (output === "json" || output === "yaml" || output === "name")
    throw new KipctlError(
      "COMMAND_REPLACED",
      `Cannot print metrics as ${output}: they are not objects`,
      {
        remedy:
          "The API server passes on what the node says: kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary",
      },
    );
  context.out(tableText(metricColumns(namespace === undefined), chosen));
  return complain(
    context,
    request,
    chosen.map(({ podRef }) => podRef.name),
  );
}

/** The namespace that is asked for; undefined for all. */
async function namespaceOf({ options, cluster }: CommandContext): Promise<string | undefined> {
  if (options.isSet("all-namespaces")) return undefined;
  return options.text("namespace") ?? (await cluster()).namespace;
}

interface Found<T> {
  readonly objects: readonly (KubeObject | Pod)[];
  /** In the order of objects. */
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
}

/** Prints what was found, and says what was not. */
function print<T>(context: CommandContext, request: Request, found: Found<T>): number {
  const { kind, names, output } = request;
  const isWanted = found.objects.map(
    ({ metadata }) => names.size === 0 || names.has(metadata.name),
  );
  const objects = found.objects.filter((_, at) => isWanted[at]);
  const rows = found.rows.filter((_, at) => isWanted[at]);
  if (output === "json" || output === "yaml" || output === "name") {
    const isOne = names.size === 1;
    if (!isOne || objects.length > 0)
      context.out(objectsText(objectKindOf(kind), objects, { output, isOne }));
  } else if (rows.length > 0)
    context.out(tableText(found.columns, rows, { isWide: output === "wide" }));
  return complain(
    context,
    request,
    objects.map(({ metadata }) => metadata.name),
  );
}

/** @returns exit code */
function complain(
  context: CommandContext,
  { kind, names }: Request,
  found: readonly string[],
): number {
  const missing = [...names].filter((name) => !found.includes(name));
  if (names.size === 0 && found.length === 0) context.note(`No ${kind} found`);
  for (const name of missing) context.note(`There is no ${kind.slice(0, -1)} "${name}"`);
  return missing.length === 0 ? 0 : 1;
}

function objectKindOf(kind: KindName) {
  return kind === "metrics" ? objectKinds.pods : objectKinds[kind];
}
