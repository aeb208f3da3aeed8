import { parseOptions, type Option, type OptionValues } from "@kip/base";

/** A parsed command line. */
export interface CommandLine {
  /** Arguments that are not flags. */
  readonly words: readonly string[];
  readonly options: OptionValues;
}

/**
 * Parses flags like Go programs, as the original tosi did: one dash or two, `-flag value` or `-flag=value`, words after `--`.
 *
 * @throws {OptionError} `OPTION_UNKNOWN`, `OPTION_INVALID`
 */
export function readCommandLine(
  table: readonly Option[],
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): CommandLine {
  const words: string[] = [];
  const flags: string[] = [];
  const rest = args.values();
  for (const arg of rest) {
    if (arg === "--") {
      words.push(...rest);
      break;
    }
    const flag = /^--?([a-z][^=]*)(=.*)?$/s.exec(arg);
    if (!flag) {
      words.push(arg);
      continue;
    }
    const [, name = "", value] = flag;
    const option = table.find((each) => each.flag === (name === "h" ? "help" : name));
    const takesNext = value === undefined && option !== undefined && option.type !== "boolean";
    const next = takesNext ? rest.next().value : undefined;
    const long = `--${option?.flag ?? name}`;
    flags.push(next === undefined ? `${long}${value ?? ""}` : `${long}=${next}`);
  }
  return { words, options: parseOptions(table, flags, env) };
}
