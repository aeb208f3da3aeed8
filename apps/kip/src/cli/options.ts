import { parseArgs } from "node:util";
import { KipError, nearest } from "@kip/base";

/** One option of a command: everything about it on one line. */
export interface Option {
  /** Long flag without dashes. */
  readonly flag: string;
  readonly type: "string" | "boolean" | "list";
  /** Environment variable that stands in when the flag is not given. */
  readonly env?: string;
  /** What it is without flag and variable; undefined means absent. */
  readonly fallback?: string;
  readonly help: string;
}

/** Values by flag. */
export interface OptionValues {
  text(flag: string): string | undefined;
  /** @throws {KipError} `OPTION_MISSING` */
  required(flag: string): string;
  isSet(flag: string): boolean;
  list(flag: string): readonly string[];
  /** A number of the given range. @throws {KipError} `OPTION_INVALID` */
  integer(flag: string, range: { readonly min: number; readonly max: number }): number;
}

/**
 * Reads a command line by a table of options.
 *
 * @throws {KipError} `OPTION_UNKNOWN`, naming the nearest known flag
 */
export function parseOptions(
  table: readonly Option[],
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): OptionValues {
  const { values } = parseArgs({
    args: [...args],
    options: Object.fromEntries(table.map((option) => [option.flag, argOption(option)])),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  checkKnown(table, args);
  const raw = (flag: string): string | boolean | readonly (string | boolean)[] | undefined => {
    const option = table.find((each) => each.flag === flag);
    if (!option) throw new TypeError(`Option "${flag}" is not in the table`);
    return (
      values[flag] ?? (option.env === undefined ? undefined : env[option.env]) ?? option.fallback
    );
  };
  const text = (flag: string): string | undefined => {
    const value = raw(flag);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const required = (flag: string): string => {
    const value = text(flag);
    if (value !== undefined) return value;
    const { env: name } = table.find((each) => each.flag === flag) ?? {};
    throw new KipError("OPTION_MISSING", `Cannot start: --${flag} is not given`, {
      remedy: name === undefined ? `Give --${flag}` : `Give --${flag} or set ${name}`,
    });
  };
  return {
    text,
    required,
    isSet: (flag) => [true, "true", "1"].includes(raw(flag) as string | boolean),
    list: (flag) => [raw(flag) ?? []].flat().filter((each) => typeof each === "string"),
    integer: (flag, { min, max }) => {
      const given = required(flag);
      const value = Number(given);
      if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
      throw new KipError(
        "OPTION_INVALID",
        `Cannot use --${flag} ${given}: a whole number from ${min} to ${max} is expected`,
      );
    },
  };
}

function argOption(option: Option) {
  return {
    type: option.type === "boolean" ? ("boolean" as const) : ("string" as const),
    multiple: option.type === "list",
  };
}

function checkKnown(table: readonly Option[], args: readonly string[]): void {
  const known = table.map((option) => option.flag);
  for (const [index, arg] of args.entries()) {
    if (!arg.startsWith("-")) {
      if (index > 0 && takesValue(table, args[index - 1])) continue;
      throw new KipError(
        "OPTION_UNKNOWN",
        `Cannot read "${arg}": no further words are expected here`,
      );
    }
    const flag = arg.replace(/^--?/, "").split("=")[0] ?? "";
    if (known.includes(flag)) continue;
    const near = nearest(flag, known);
    throw new KipError("OPTION_UNKNOWN", `Cannot read "${arg}": there is no such flag`, {
      remedy: near === undefined ? "See --help" : `Did you mean --${near}?`,
    });
  }
}

function takesValue(table: readonly Option[], arg: string | undefined): boolean {
  if (arg === undefined || !arg.startsWith("-") || arg.includes("=")) return false;
  return table.some((option) => option.type !== "boolean" && `--${option.flag}` === arg);
}

/** The table as help text. */
export function helpText(usage: string, table: readonly Option[]): string {
  const lines = table.map((option) => {
    const name = `  --${option.flag}${option.type === "boolean" ? "" : " VALUE"}`;
    const notes = [
      option.env === undefined ? "" : `env ${option.env}`,
      option.fallback === undefined ? "" : `default ${option.fallback}`,
    ].filter((note) => note !== "");
    return `${name.padEnd(32)} ${option.help}${notes.length > 0 ? ` (${notes.join(", ")})` : ""}`;
  });
  return `${usage}\n\nOptions:\n${lines.join("\n")}\n`;
}
