import { once } from "node:events";
import { paths } from "@kip/k8s-client";
import type { Command, CommandContext } from "../cli/command.ts";
import {
  clusterOptions,
  helpOption,
  namespaceOption,
  toggle,
  unitOptions,
} from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { printConsole } from "./console.ts";
import { containerOf, defaultContainer } from "./container.ts";
import { getPod } from "./get-pod.ts";

/** As in the original. */
const defaultLines = 20;

export const logsCommand: Command = {
  name: "logs",
  synopsis: "POD|CELL [options]",
  summary: "show what a container of a pod has printed",
  details: `Without --lines and --limit-bytes the last ${defaultLines} lines; with --lines=-1 all. The log of a
CELL is its console, which has that of its agent: --lines alone counts there.`,
  options: [
    ...unitOptions,
    { flag: "follow", letter: "f", type: "boolean", help: "go on until the container ends" },
    { flag: "lines", type: "string", help: "lines from the end; -1 for all" },
    { flag: "limit-bytes", type: "string", help: "bytes at most" },
    { flag: "previous", letter: "p", type: "boolean", help: "of the container's last run" },
    { flag: "timestamps", type: "boolean", help: "with the time of each line" },
    namespaceOption,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: [
    "logs web",
    "logs web -u sidecar --lines=100 -f",
    "logs shop/web --lines=-1",
    "logs cell-0b1c2d3e-1111-2222-3333-444455556666",
  ],
  run: logs,
};

async function logs(context: CommandContext): Promise<void> {
  const { options, signal } = context;
  const [name = ""] = expectWords(context.words, ["POD|CELL"], "logs");
  const query = logQuery(context);
  if (name.startsWith("cell-")) return await printConsole(context, name, query.tailLines ?? -1);
  const { client } = await context.cluster();
  const pod = await getPod(context, name);
  const container = containerOf(options) ?? defaultContainer(pod);
  const { namespace, name: podName } = pod.metadata;
  const answer = await client.stream(paths.pods(namespace, podName, "log"), {
    query: { ...query, container },
    accept: "*/*",
    signal,
  });
  // The reader of our output may be slower than the pod.
  for await (const chunk of answer as AsyncIterable<Uint8Array>)
    if (!process.stdout.write(chunk)) await once(process.stdout, "drain", { signal });
}

function logQuery({ options }: CommandContext) {
  const lines = options.text("lines");
  const most = options.text("limit-bytes");
  const max = Number.MAX_SAFE_INTEGER;
  const tail = lines === undefined ? undefined : options.integer("lines", { min: -1, max });
  const isShort = tail === undefined && most === undefined;
  return {
    tailLines: isShort ? defaultLines : tail === -1 ? undefined : tail,
    limitBytes: most === undefined ? undefined : options.integer("limit-bytes", { min: 1, max }),
    follow: options.isSet("follow") ? true : undefined,
    previous: options.isSet("previous") ? true : undefined,
    timestamps: options.isSet("timestamps") ? true : undefined,
  };
}
