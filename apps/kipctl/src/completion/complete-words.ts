import type { Command } from "../cli/command.ts";
import type { LetteredOption } from "../cli/command-line.ts";
import { kindNames } from "../get/kinds.ts";

/** A possible next word of a command line. */
export interface Candidate {
  readonly text: string;
  readonly description?: string | undefined;
}

/** Names that have to be read from the cluster. */
export type NameSource = "pods" | "cells" | "namespaces";

/** The candidates that are known without a cluster, and the kind of cluster names that may also come next. */
export interface Completion {
  readonly candidates: readonly Candidate[];
  readonly names?: NameSource | undefined;
  /** Whether file names may come next. */
  readonly hasFiles?: boolean | undefined;
}

const flagValues: Readonly<Record<string, readonly string[]>> = {
  output: ["table", "wide", "json", "yaml", "name"],
  "sort-by": ["cpu", "memory"],
};

/** Finds what may come next. The last of the words is the one that the user is typing, and may be empty. */
export function completeWords(commands: readonly Command[], words: readonly string[]): Completion {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  if (before.includes("--")) return { candidates: [], hasFiles: true };
  const command = commands.find(({ name }) => name === before[0]);
  if (!command && before.length > 0) return { candidates: [] };
  const found = command
    ? afterCommand(command, before, typed)
    : { candidates: commandNames(commands) };
  return { ...found, candidates: found.candidates.filter(({ text }) => text.startsWith(typed)) };
}

function afterCommand(command: Command, before: readonly string[], typed: string): Completion {
  const option = valueOf(command, before.at(-1));
  return option ? ofFlag(option) : ofCommand(command, before.slice(1), typed);
}

function commandNames(commands: readonly Command[]): readonly Candidate[] {
  return commands.map(({ name, summary }) => ({ text: name, description: summary }));
}

/** The option whose value the user is typing. */
function valueOf({ options }: Command, last: string | undefined): LetteredOption | undefined {
  if (last === undefined || !last.startsWith("-") || last.includes("=")) return undefined;
  return options.find(
    ({ flag, letter, type }) =>
      type !== "boolean" && (last === `--${flag}` || last === `-${letter}`),
  );
}

function ofFlag({ flag }: LetteredOption): Completion {
  if (flag === "namespace") return { candidates: [], names: "namespaces" };
  if (flag === "filename" || flag === "kubeconfig") return { candidates: [], hasFiles: true };
  return { candidates: (flagValues[flag] ?? []).map((text) => ({ text })) };
}

function ofCommand(command: Command, before: readonly string[], typed: string): Completion {
  if (typed.startsWith("-"))
    return {
      candidates: command.options
        .filter(({ hasNoEffect }) => hasNoEffect !== true)
        .map(({ flag, help }) => ({ text: `--${flag}`, description: help })),
    };
  const words = before.filter(
    (word, at) => !word.startsWith("-") && valueOf(command, before[at - 1]) === undefined,
  );
  const takesKind = command.name === "get" || command.name === "delete";
  if (takesKind && words.length === 0) return { candidates: kindNames.map((text) => ({ text })) };
  if (takesKind) return { candidates: [], names: namesOf(words[0] ?? "") };
  if (command.name === "completion" && words.length === 0)
    return { candidates: ["bash", "zsh", "fish"].map((text) => ({ text })) };
  const takesPod = /^(?:CELL\|)?POD/.test(command.synopsis) && words.length === 0;
  return { candidates: [], names: takesPod ? "pods" : undefined };
}

function namesOf(kind: string): NameSource {
  return /^(?:cell|cl$|no)/.test(kind) ? "cells" : "pods";
}
