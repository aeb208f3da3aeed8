import { stringify } from "yaml";
import type { Command, CommandContext } from "../cli/command.ts";
import { clusterOptions, helpOption, narrowingNamespace, toggle } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { KipctlError } from "../errors.ts";
import { dumpText } from "./dump-text.ts";
import { readDumps, type NodeDump } from "./read-dumps.ts";

export const dumpCommand: Command = {
  name: "dump",
  synopsis: "[all] [options]",
  summary: "show the plans, queues and timers of a live kip",
  details: `From memory of each kip, through the API server's proxy of its node; needs the right to get nodes/proxy. A step that runs or is planned
has a line: paused ones failed, and run again after NEXT. A worker without a step waits for a change, or plans again after NEXT.`,
  options: [
    { flag: "node", type: "string", help: "node of kip; default all" },
    { flag: "output", letter: "o", type: "string", fallback: "table", help: "table, json or yaml" },
    narrowingNamespace,
    ...clusterOptions,
    toggle,
    helpOption,
  ],
  examples: ["dump", "dump -n shop", "dump --node=kip -o json"],
  run: dump,
};

async function dump(context: CommandContext): Promise<void> {
  const { options, words, signal } = context;
  const [what = "all"] = words;
  if (what !== "all") throw replaced(what);
  expectWords(words.slice(1), [], "dump");
  const output = options.choice("output", ["table", "json", "yaml"]);
  const namespace = options.text("namespace");
  const { client } = await context.cluster();
  const note = (line: string): void => context.note(line);
  const dumps = await readDumps(client, { node: options.text("node"), signal, note });
  const shown = dumps.map((each) => ofNamespace(each, namespace));
  if (output === "table") return context.out(dumpText(shown));
  context.out(output === "json" ? `${JSON.stringify(shown, undefined, 2)}\n` : stringify(shown));
}

/** The original also dumped its controllers and the stacks of its goroutines. */
function replaced(word: string): KipctlError {
  return new KipctlError(
    "COMMAND_REPLACED",
    `Cannot dump "${word}": kip has one worker for each pod, and no controllers`,
    { remedy: "kipctl dump shows what each worker does; kipctl explain POD what a pod waits for" },
  );
}

function ofNamespace(dumped: NodeDump, namespace: string | undefined): NodeDump {
  if (namespace === undefined) return dumped;
  return {
    ...dumped,
    admitted: dumped.admitted.filter((each) => each.startsWith(`${namespace}/`)),
    pods: dumped.pods.filter(({ pod }) => pod?.namespace === namespace),
    standby: [],
  };
}
