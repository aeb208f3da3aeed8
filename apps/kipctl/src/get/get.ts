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
import { currentNamespace, podPath } from "../pod/get-pod.ts";
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
  const request = {
    kind,
    names: new Map(names.map((name) => [name, name])),
    output: outputOf(options),
  };
  return await printers[kind](context, request);
}

interface Request {
  readonly kind: KindName;
  /** The requested names as the user wrote them, by `NAME` or `NAMESPACE/NAME`. Empty: all. */
  readonly names: ReadonlyMap<string, string>;
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
  const [only, ...others] = request.names.keys();
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
  const { namespaces, names } = await podsAskedFor(context, request.names);
  const selector = options.text("selector");
  const [cells, ...lists] = await Promise.all([
    listCells(client, { signal }),
    ...namespaces.map((namespace) => listKipPods(client, { namespace, selector, signal })),
  ]);
  const pods = lists.flat();
  const cellOf = cellsByPod(cells);
  const rows = pods.map((pod): PodRow => ({ pod, cell: cellOf.get(pod.metadata.uid) }));
  const columns = podColumns(now, hasNamespaceColumn(namespaces));
  return print<PodRow>(context, { ...request, names }, { objects: pods, rows, columns });
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
  const { output } = request;
  const { namespaces, names } = await podsAskedFor(context, request.names);
  if (output === "json" || output === "yaml" || output === "name")
    throw new KipctlError(
      "COMMAND_REPLACED",
      `Cannot print metrics as ${output}: they are not objects`,
      {
        remedy:
          "The API server passes on what the node says: kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary",
      },
    );
  const [namespace] = namespaces.length === 1 ? namespaces : [];
  const usage = await readUsage(client, { namespace, signal, note: (line) => context.note(line) });
  const chosen = usage.filter(({ podRef }) => isNamed(podRef, names));
  context.out(tableText(metricColumns(hasNamespaceColumn(namespaces)), chosen));
  return complain(
    context,
    { ...request, names },
    chosen.map(({ podRef }) => podRef),
  );
}

/**
 * The namespaces in which to look for pods (undefined: all), and the requested names. Each name has its namespace, unless all
 * namespaces are requested.
 */
async function podsAskedFor(
  context: CommandContext,
  names: Request["names"],
): Promise<Pick<Request, "names"> & { readonly namespaces: readonly (string | undefined)[] }> {
  if (context.options.isSet("all-namespaces")) return { namespaces: [undefined], names };
  const current = await currentNamespace(context);
  if (names.size === 0) return { namespaces: [current], names };
  const found = [...names.values()].map((word) => ({ word, ...podPath(word, current) }));
  return {
    namespaces: [...new Set(found.map(({ namespace }) => namespace))],
    names: new Map(found.map(({ namespace, name, word }) => [`${namespace}/${name}`, word])),
  };
}

function hasNamespaceColumn(namespaces: readonly (string | undefined)[]): boolean {
  return namespaces.length > 1 || namespaces[0] === undefined;
}

/** The requested namespace. Undefined for all. */
async function namespaceOf({ options, cluster }: CommandContext): Promise<string | undefined> {
  if (options.isSet("all-namespaces")) return undefined;
  return options.text("namespace") ?? (await cluster()).namespace;
}

interface Found<T> {
  readonly objects: readonly (KubeObject | Pod)[];
  /** In the same order as the objects. */
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
}

/** Prints the objects found, and notes the names that were not found. */
function print<T>(context: CommandContext, request: Request, found: Found<T>): number {
  const { kind, names, output } = request;
  const isWanted = found.objects.map(({ metadata }) => isNamed(metadata, names));
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
    objects.map(({ metadata }) => metadata),
  );
}

/** An object's name and namespace. */
interface Named {
  readonly name: string;
  readonly namespace?: string | undefined;
}

function isNamed({ namespace, name }: Named, names: Request["names"]): boolean {
  return names.size === 0 || names.has(name) || names.has(`${namespace}/${name}`);
}

/** @returns exit code */
function complain(
  context: CommandContext,
  { kind, names }: Request,
  found: readonly Named[],
): number {
  const shown = new Set(found.flatMap(({ namespace, name }) => [name, `${namespace}/${name}`]));
  const missing = [...names].filter(([name]) => !shown.has(name)).map(([, word]) => word);
  if (names.size === 0 && found.length === 0) context.note(`No ${kind} found`);
  for (const name of missing) context.note(`There is no ${kind.slice(0, -1)} "${name}"`);
  return missing.length === 0 ? 0 : 1;
}

function objectKindOf(kind: KindName) {
  return kind === "metrics" ? objectKinds.pods : objectKinds[kind];
}
