import type { OptionValues } from "@kip/base";
import type { Cluster } from "../cluster/open-cluster.ts";
import type { LetteredOption } from "./command-line.ts";

/** The input and output of a command. */
export interface CommandContext {
  /** Arguments after the command's name that are not flags. */
  readonly words: readonly string[];
  /** Arguments after `--`. */
  readonly rest: readonly string[] | undefined;
  readonly options: OptionValues;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** Name by which the program was called: kipctl or kubectl kip. */
  readonly program: string;
  /** Writes to standard output. */
  readonly out: (text: string) => void;
  /** Writes a line for the user to standard error. */
  readonly note: (line: string) => void;
  /** The cluster of the kubeconfig. Opened by the first call, and closed after the command. */
  readonly cluster: () => Promise<Cluster>;
}

/** One command of kipctl. */
export interface Command {
  readonly name: string;
  /** The arguments after the name, for the usage line, as in `POD [options]`. */
  readonly synopsis: string;
  /** One line, for the list of commands. */
  readonly summary: string;
  /** Further text for `--help`. */
  readonly details?: string | undefined;
  readonly options: readonly LetteredOption[];
  /** At least one, without the program's name. */
  readonly examples: readonly string[];
  /** Resolves with the exit code. */
  run(context: CommandContext): Promise<number | void>;
}
