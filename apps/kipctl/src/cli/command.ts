import type { OptionValues } from "@kip/base";
import type { Cluster } from "../cluster/open-cluster.ts";
import type { LetteredOption } from "./command-line.ts";

/** What a command works with. */
export interface CommandContext {
  /** Arguments after the command that are not flags. */
  readonly words: readonly string[];
  /** What comes after `--`. */
  readonly rest: readonly string[] | undefined;
  readonly options: OptionValues;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** Name that the program is called by: kipctl or kubectl kip. */
  readonly program: string;
  /** Writes to standard output. */
  readonly out: (text: string) => void;
  /** Writes a line for a person to standard error. */
  readonly note: (line: string) => void;
  /** The cluster of the kubeconfig; opened once, closed after the command. */
  readonly cluster: () => Promise<Cluster>;
}

/** One command of kipctl. */
export interface Command {
  readonly name: string;
  /** What follows the name in its usage, for example `POD [options]`. */
  readonly synopsis: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** More for `--help`. */
  readonly details?: string | undefined;
  readonly options: readonly LetteredOption[];
  /** At least one, without the program's name. */
  readonly examples: readonly string[];
  /** Resolves with the exit code. */
  run(context: CommandContext): Promise<number | void>;
}
