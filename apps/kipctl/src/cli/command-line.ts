import { parseOptions, type Option, type OptionValues } from "@kip/base";

/** An option with kubectl's one-letter form. */
export interface LetteredOption extends Option {
  /** The letter, without its dash. */
  readonly letter?: string | undefined;
}

/** A parsed command line. */
export interface CommandLine {
  /** Arguments that are not flags. */
  readonly words: readonly string[];
  /** Arguments after `--`. Undefined without `--`. */
  readonly rest: readonly string[] | undefined;
  readonly options: OptionValues;
}

/**
 * Parses a command line like kubectl: flags before, between and after words, `-o json`, `-o=json`, `-ojson`, `-it` for two
 * letters, and `--` before the arguments of another program. `-h` is `--help`.
 *
 * @throws {OptionError} `OPTION_UNKNOWN`, `OPTION_INVALID`
 */
export function readCommandLine(
  table: readonly LetteredOption[],
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): CommandLine {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  const words: string[] = [];
  const flags: string[] = [];
  const next = own.values();
  for (const arg of next) {
    if (!arg.startsWith("-") || arg === "-") {
      words.push(arg);
      continue;
    }
    for (const flag of longFlags(table, arg)) {
      const option = table.find((each) => `--${each.flag}` === flag);
      const value = option && option.type !== "boolean" ? next.next().value : undefined;
      flags.push(value === undefined ? flag : `${flag}=${value}`);
    }
  }
  const rest = end < 0 ? undefined : args.slice(end + 1);
  return { words, rest, options: parseOptions(table, flags, env) };
}

/**
 * Expands an argument of letters: `-it` becomes `--stdin --tty`, `-ojson` becomes `--output=json`. Unknown letters are left as
 * they are.
 */
function longFlags(table: readonly LetteredOption[], arg: string): readonly string[] {
  if (arg.startsWith("--")) return [arg];
  const flags: string[] = [];
  for (let at = 1; at < arg.length; at++) {
    const letter = arg[at];
    const option = table.find((each) => letter === (each.letter ?? letterOf(each)));
    if (!option) return [arg];
    const value = arg.slice(at + 1);
    if (option.type !== "boolean" && value !== "")
      return [...flags, `--${option.flag}=${value.replace(/^=/, "")}`];
    flags.push(`--${option.flag}`);
  }
  return flags;
}

function letterOf({ flag }: LetteredOption): string | undefined {
  return flag === "help" ? "h" : undefined;
}
