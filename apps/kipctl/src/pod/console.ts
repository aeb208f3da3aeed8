import { buffer } from "node:stream/consumers";
import { ignoreNotFound, isNotFound, K8sError, paths } from "@kip/k8s-client";
import type { Command, CommandContext } from "../cli/command.ts";
import { clusterOptions, helpOption, namespaceOption, toggle } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { cellsByPod, listCells, type AnyCell } from "../cluster/list-cells.ts";
import { KipctlError } from "../errors.ts";
import { plainText } from "../output/plain-text.ts";
import { getPod } from "./get-pod.ts";

export const consoleCommand: Command = {
  name: "console",
  synopsis: "CELL|POD [options]",
  summary: "show the console of a cell's machine: its boot, and the log of its agent",
  details: `The last MiB at most, from kip through the API server's proxy of the node; needs the right to get nodes/proxy. What containers print is not
in it: see logs.`,
  options: [
    { flag: "lines", type: "string", fallback: "-1", help: "lines from the end; -1 for all" },
    namespaceOption,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["console web", "console cell-0b1c2d3e-1111-2222-3333-444455556666 --lines=50"],
  run: async (context) => {
    const [name = ""] = expectWords(context.words, ["CELL|POD"], "console");
    const lines = context.options.integer("lines", { min: -1, max: Number.MAX_SAFE_INTEGER });
    await printConsole(context, name, lines);
  },
};

/** Prints the end of a cell's console, by the name of the cell or of its pod. `lines`: -1 for all. */
export async function printConsole(
  context: CommandContext,
  name: string,
  lines: number,
): Promise<void> {
  const cell = await findCell(context, name);
  context.out(lastLines(await readConsole(context, cell), lines));
}

/** The cell with this name, or the newest cell of the pod with this name. @throws {KipctlError} `OBJECT_NOT_FOUND` */
async function findCell(context: CommandContext, name: string): Promise<AnyCell> {
  const { client } = await context.cluster();
  const { signal } = context;
  const named = name.includes("/")
    ? undefined
    : await ignoreNotFound(client.get<AnyCell>(paths.cells(name), { signal }));
  if (named) return named;
  if (name.startsWith("cell-")) throw noCell(`Cannot find cell "${name}"`);
  const { namespace, uid } = (await getPod(context, name)).metadata;
  const cell = cellsByPod(await listCells(client, { namespace, signal })).get(uid);
  if (cell) return cell;
  throw noCell(`Cannot find a cell of pod "${name}": it has none now`);
}

function noCell(message: string): KipctlError {
  const remedy = "kipctl get cells lists them, and kipctl explain POD says what a pod waits for";
  return new KipctlError("OBJECT_NOT_FOUND", message, { remedy });
}

async function readConsole(context: CommandContext, cell: AnyCell): Promise<string> {
  const { client } = await context.cluster();
  const { signal } = context;
  const { nodeName } = cell.spec;
  const path = paths.nodes(nodeName, `proxy/logs/cells/${cell.metadata.name}/console`);
  try {
    const answer = await client.stream(path, { accept: "text/plain, */*", signal });
    return (await buffer(answer)).toString("utf8");
  } catch (error) {
    const what = `Cannot read the console of "${cell.metadata.name}"`;
    if (isNotFound(error)) throw noCell(`${what}: kip on node "${nodeName}" has none of it yet`);
    // The response of a kubelet whose logs are switched off.
    if (K8sError.is(error) && error.httpStatus === 405)
      throw new KipctlError(
        "NO_KIP_NODE",
        `${what}: kip on node "${nodeName}" is too old to show it`,
        {
          remedy: "Update kip on that node",
        },
      );
    throw error;
  }
}

/** The last lines of a console, as {@link plainText}. */
export function lastLines(text: string, lines: number): string {
  const plain = plainText(text);
  if (lines < 0 || plain === "") return plain;
  const all = plain.endsWith("\n") ? plain.slice(0, -1).split("\n") : plain.split("\n");
  return lines === 0 ? "" : `${all.slice(-lines).join("\n")}\n`;
}
