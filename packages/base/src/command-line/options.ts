import { textBefore } from "../text-before.ts";
import { parseArgs } from "node:util";
import { OptionError } from "../errors.ts";
import { nearest } from "../nearest.ts";

/** One option of a command. */
export interface Option {
  /** The long flag, without dashes. */
  readonly flag: string;
  readonly type: "string" | "boolean" | "list";
  /** Environment variables that are read when the flag is not given. The first one that is set counts. */
  readonly env?: string | readonly string[] | undefined;
  /** The value without flag and variable. @default the option is absent */
  readonly fallback?: string | undefined;
  /** Text for `--help`. For an option without effect: the reason, shown by {@link uselessOptions}. */
  readonly help: string;
  /** The option is accepted for compatibility, and hidden from `--help`. @default false */
  readonly hasNoEffect?: boolean | undefined;
}

/** Values by flag. */
export interface OptionValues {
  text(flag: string): string | undefined;
  /** @throws {OptionError} `OPTION_MISSING` */
  required(flag: string): string;
  isSet(flag: string): boolean;
  list(flag: string): readonly string[];
  /** A number in the given range. @throws {OptionError} `OPTION_INVALID` */
  integer(flag: string, range: { readonly min: number; readonly max: number }): number;
  /** One of the given words. @throws {OptionError} `OPTION_INVALID` */
  choice<const T extends string>(flag: string, words: readonly T[]): T;
}

/**
 * Reads a command line according to a table of options.
 *
 * `-h` means `--help` if the table contains that. If a flag is repeated, the last value counts, unless the option is a list.
 *
 * @throws {OptionError} `OPTION_UNKNOWN`, naming the nearest known flag; `OPTION_INVALID` for a flag without its value
 */
export function parseOptions(
  table: readonly Option[],
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): OptionValues {
  const values = readWords(table, args);
  const raw = (flag: string): readonly string[] => {
    const option = table.find((each) => each.flag === flag);
    if (!option) throw new TypeError(`Option "${flag}" is not in the table`);
    const given = values.get(flag)?.filter((each) => each !== "") ?? [];
    if (given.length > 0) return given;
    const fromEnv = variablesOf(option).map((name) => env[name] ?? "");
    const other = fromEnv.find((text) => text !== "") ?? option.fallback;
    return other === undefined ? [] : [other];
  };
  const text = (flag: string): string | undefined => raw(flag).at(-1);
  const required = (flag: string): string => {
    const value = text(flag);
    if (value !== undefined) return value;
    const [name] = variablesOf(table.find((each) => each.flag === flag));
    throw new OptionError("OPTION_MISSING", `Cannot run this command: --${flag} is not given`, {
      remedy: name === undefined ? `Give --${flag}` : `Give --${flag} or set ${name}`,
    });
  };
  return {
    text,
    required,
    isSet: (flag) => isTrue(flag, text(flag)),
    list: raw,
    integer: (flag, { min, max }) => {
      const given = required(flag);
      const value = Number(given);
      if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
      throw new OptionError(
        "OPTION_INVALID",
        `Cannot use --${flag} ${given}: a whole number from ${min} to ${max} is expected`,
      );
    },
    choice: (flag, words) => {
      const given = required(flag);
      const found = words.find((each) => each === given);
      if (found !== undefined) return found;
      throw new OptionError(
        "OPTION_INVALID",
        `Cannot use --${flag} ${given}: one of ${words.join(", ")} is expected`,
      );
    },
  };
}

/** The names of the environment variables for an option. */
function variablesOf(option: Option | undefined): readonly string[] {
  const names = option?.env ?? [];
  return typeof names === "string" ? [names] : names;
}

/** The values after each flag. A boolean flag alone means `true`. */
function readWords(
  table: readonly Option[],
  args: readonly string[],
): ReadonlyMap<string, readonly string[]> {
  const known = table.map(({ flag, type }) => {
    const config = { type: type === "boolean" ? ("boolean" as const) : ("string" as const) };
    return [flag, flag === "help" ? { ...config, short: "h" } : config] as const;
  });
  const { tokens } = parseArgs({
    args,
    options: Object.fromEntries(known),
    strict: false, // the parser's own messages do not name the nearest flag
    tokens: true,
  });
  const values = new Map<string, string[]>();
  for (const token of tokens) {
    const arg = args[token.index] ?? "";
    if (token.kind === "positional")
      throw new OptionError(
        "OPTION_UNKNOWN",
        `Cannot read "${arg}": no further words are expected here`,
      );
    // The parser reads "-n=1" as a flag "n" with the value "=1". Only "--n=1" and "-h" are flags here.
    const isFlag = token.kind === "option" && (token.rawName.startsWith("--") || arg === "-h");
    const option = isFlag ? table.find(({ flag }) => flag === token.name) : undefined;
    if (!option || !isFlag) throw unknownFlag(table, arg);
    const value = token.value ?? (option.type === "boolean" ? "true" : undefined);
    if (value === undefined || (token.inlineValue !== true && value.startsWith("-")))
      throw new OptionError("OPTION_INVALID", `Cannot use ${arg}: its value is missing`, {
        remedy: `Write --${option.flag}=VALUE`,
      });
    values.set(option.flag, [...(values.get(option.flag) ?? []), value]);
  }
  return values;
}

function unknownFlag(table: readonly Option[], arg: string): OptionError {
  const known = table.filter(({ hasNoEffect }) => hasNoEffect !== true).map(({ flag }) => flag);
  const near = nearest(textBefore(arg.replace(/^--?/, ""), "="), known);
  return new OptionError("OPTION_UNKNOWN", `Cannot read "${arg}": there is no such flag`, {
    remedy: near === undefined ? "See --help" : `Did you mean --${near}?`,
  });
}

function isTrue(flag: string, value: string | undefined): boolean {
  if (value === undefined || value === "false" || value === "0") return false;
  if (value === "true" || value === "1") return true;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --${flag}=${value}: true or false is expected`,
  );
}

/** One sentence for each given option that has no effect. */
export function uselessOptions(table: readonly Option[], options: OptionValues): readonly string[] {
  return table
    .filter(({ flag, hasNoEffect }) => hasNoEffect === true && options.text(flag) !== undefined)
    .map(({ flag, help }) => `--${flag} is deprecated and has no effect: ${help}`);
}

/** Width of a help text, and of the column with option names. */
const helpColumns = 100;
const nameColumns = 33;

/** The table as help text, at most 100 columns wide apart from longer words. `--help` comes last. */
export function helpText(usage: string, table: readonly Option[]): string {
  const shown = table.filter(({ hasNoEffect }) => hasNoEffect !== true);
  const isHelp = ({ flag }: Option): boolean => flag === "help";
  const inOrder = [...shown.filter((each) => !isHelp(each)), ...shown.filter(isHelp)];
  return `${usage}\n\nOptions:\n${inOrder.map(optionHelp).join("\n")}\n`;
}

function optionHelp(option: Option): string {
  const name = `  --${option.flag}${option.type === "boolean" ? "" : " VALUE"}`;
  const notes = [
    option.type === "list" ? "repeatable" : "",
    option.env === undefined ? "" : `env ${variablesOf(option).join(" or ")}`,
    option.fallback === undefined ? "" : `default ${option.fallback}`,
  ].filter((note) => note !== "");
  const help = notes.length > 0 ? `${option.help} (${notes.join(", ")})` : option.help;
  const indent = " ".repeat(nameColumns);
  const lines = wrapped(help, helpColumns - nameColumns).join(`\n${indent}`);
  return name.length < nameColumns
    ? `${name.padEnd(nameColumns)}${lines}`
    : `${name}\n${indent}${lines}`;
}

/** Wraps a text to this many columns. A longer word gets a line of its own. */
function wrapped(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > columns) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
