import { paths, type KubeObject } from "@kip/k8s-client";
import { OptionError } from "@kip/base";
import type { Command, CommandContext } from "../cli/command.ts";
import { readCommandLine } from "../cli/command-line.ts";
import { clusterOptions, helpOption, namespaceOption } from "../cli/option-table.ts";
import { expectWords } from "../cli/words.ts";
import { listCells } from "../cluster/list-cells.ts";
import { listKipPods } from "../cluster/list-pods.ts";
import { openCluster, type Cluster } from "../cluster/open-cluster.ts";
import { completeWords, type NameSource } from "./complete-words.ts";
import { completionScript, shells } from "./scripts.ts";

export const completionCommand: Command = {
  name: "completion",
  synopsis: shells.join("|"),
  summary: "print a script for your shell that completes commands, flags and names",
  details: `For kubectl kip, put kubectl_complete-kip beside kubectl-kip on the PATH: kubectl's own completion runs it.`,
  options: [helpOption],
  examples: ["completion bash > /etc/bash_completion.d/kipctl", "completion fish | source"],
  run: completion,
};

function completion({ words, out }: CommandContext): Promise<void> {
  const [word = ""] = expectWords(words, ["SHELL"], "completion");
  const shell = shells.find((each) => each === word);
  if (!shell)
    throw new OptionError(
      "OPTION_INVALID",
      `Cannot complete for "${word}": there is no script for it`,
      {
        remedy: `The shells are ${shells.join(", ")}`,
      },
    );
  out(completionScript(shell));
  return Promise.resolve();
}

/** Values of cobra's directive, which kubectl reads at the end of a plugin's completions: without or with file names. */
const directives = { noFiles: ":4", files: ":0" } as const;

/** Time limit for reading names from the cluster, milliseconds. The user is waiting. */
const limitMs = 3000;

/** The candidates for the next word, one per line. Names are left out if the cluster does not respond. */
export async function completionLines(
  commands: readonly Command[],
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const { candidates, names, hasFiles } = completeWords(commands, words);
  const typed = words.at(-1) ?? "";
  const found = names === undefined ? [] : await clusterNames(names, words, env).catch(() => []);
  const lines = [
    ...candidates.map(({ text, description }) =>
      description === undefined ? text : `${text}\t${description}`,
    ),
    ...found.filter((name) => name.startsWith(typed)),
  ];
  return `${[...lines, hasFiles === true ? directives.files : directives.noFiles].join("\n")}\n`;
}

async function clusterNames(
  source: NameSource,
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<readonly string[]> {
  const { options } = readCommandLine([namespaceOption, ...clusterOptions], flagsOf(words), env);
  const cluster = await openCluster(options, env);
  try {
    const namespace = options.text("namespace") ?? cluster.namespace;
    return await readNames(source, cluster, namespace);
  } finally {
    cluster.client.close();
  }
}

async function readNames(
  source: NameSource,
  { client }: Cluster,
  namespace: string,
): Promise<readonly string[]> {
  const signal = AbortSignal.timeout(limitMs);
  switch (source) {
    case "pods":
      return (await listKipPods(client, { namespace, signal })).map(
        ({ metadata }) => metadata.name,
      );
    case "cells":
      return (await listCells(client, { signal })).map(({ metadata }) => metadata.name);
    case "namespaces":
      break;
  }
  const { items } = await client.list<KubeObject>(paths.namespaces(), { signal });
  return items.map(({ metadata }) => metadata.name);
}

/** The flags of an incomplete command line that name a cluster or a namespace. Others are ignored. */
function flagsOf(words: readonly string[]): readonly string[] {
  const known = [namespaceOption, ...clusterOptions];
  const names = known.flatMap(({ flag, letter }) => [`--${flag}`, `-${letter ?? flag}`]);
  return words.flatMap((word, at) => {
    const [name = "", value] = word.split("=", 2);
    if (!names.includes(name)) return [];
    if (value !== undefined) return [word];
    const next = words[at + 1];
    return next === undefined || next === "" || at + 1 === words.length - 1
      ? []
      : [`${name}=${next}`];
  });
}
