import { nearest, OptionError, uselessOptions } from "@kip/base";
import type { CommandContext } from "./cli/command.ts";
import { readCommandLine } from "./cli/command-line.ts";
import { allNamespaces, clusterOptions, namespaceOption, toggle } from "./cli/option-table.ts";
import { commandHelp, programHelp } from "./cli/help-text.ts";
import { openCluster, type Cluster } from "./cluster/open-cluster.ts";
import { commands } from "./commands.ts";
import { completionLines } from "./completion/completion.ts";

/** Flags that may come before the command. Each command accepts those that apply to it. */
const globalOptions = [...clusterOptions, namespaceOption, allNamespaces, toggle];

/** The program's context, which every command gets. */
export type ProgramContext = Pick<
  CommandContext,
  "env" | "signal" | "now" | "program" | "out" | "note"
>;

/**
 * Runs the command that the arguments name.
 *
 * @returns exit code
 * @throws {OptionError}, and the errors of the command
 */
export async function runCommandLine(
  args: readonly string[],
  program: ProgramContext,
): Promise<number> {
  const { env, out, note } = program;
  const [first = "help", ...others] = commandFirst(args);
  if (first === "__complete") {
    out(await completionLines(commands, others, env));
    return 0;
  }
  const [name, rest] =
    first === "help" && others.length > 0 ? [others[0], ["--help"]] : [first, others];
  if (name === "help" || name === "--help" || name === "-h") {
    out(programHelp(program.program, commands));
    return 0;
  }
  const command = commands.find((each) => each.name === name);
  if (!command) throw unknownCommand(String(name), program.program);
  const line = readCommandLine(command.options, rest, env);
  if (line.options.isSet("help")) {
    out(commandHelp(program.program, command));
    return 0;
  }
  for (const notice of uselessOptions(command.options, line.options)) note(notice);
  await using opened = new OpenedCluster(() => openCluster(line.options, env));
  const cluster = async (): Promise<Cluster> => await opened.get();
  return (await command.run({ ...program, ...line, cluster })) ?? 0;
}

/** Moves global flags behind the command. As in the original, they may also come before it. */
function commandFirst(args: readonly string[]): readonly string[] {
  let at = 0;
  for (let arg = args[0]; arg?.startsWith("-") === true; arg = args[at]) {
    const option = globalOptions.find(
      ({ flag, letter }) => arg === `-${letter}` || arg.split("=", 1)[0] === `--${flag}`,
    );
    if (!option) return args;
    at += option.type === "boolean" || arg.includes("=") ? 1 : 2;
  }
  const [command, ...others] = args.slice(at);
  return command === undefined ? [] : [command, ...args.slice(0, at), ...others];
}

/** Opens the cluster on first use, and closes it at the end. */
class OpenedCluster implements AsyncDisposable {
  readonly #open: () => Promise<Cluster>;
  #opened: Promise<Cluster> | undefined;

  constructor(open: () => Promise<Cluster>) {
    this.#open = open;
  }

  get(): Promise<Cluster> {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const cluster = await this.#opened?.catch(() => undefined);
    cluster?.client.close();
  }
}

function unknownCommand(name: string, program: string): OptionError {
  const near = nearest(
    name,
    commands.map((each) => each.name),
  );
  const isFlag = name.startsWith("-");
  return new OptionError(
    "OPTION_UNKNOWN",
    isFlag
      ? `Cannot read "${name}": flags come after the command`
      : `Cannot run "${program} ${name}": there is no such command`,
    {
      remedy:
        near === undefined || isFlag ? `See ${program} --help` : `Did you mean ${program} ${near}?`,
    },
  );
}
