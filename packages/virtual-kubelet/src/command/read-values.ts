import path from "node:path";
import { OptionError } from "@kip/base";

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/**
 * Parses a duration in Go's format, for example `1m30s`, into milliseconds. `0` needs no unit.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function duration(flag: string, text: string): number {
  if (/^0+$/.test(text)) return 0;
  if (!/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(text))
    throw wrong(flag, text, "a duration such as 1m30s is expected");
  const parts = text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g);
  return [...parts].reduce(
    (sum, [, count, unit = ""]) => sum + Number(count) * (units[unit] ?? 0),
    0,
  );
}

/** One of the given words. @throws {OptionError} `OPTION_INVALID` */
export function choice<const T extends string>(flag: string, text: string, all: readonly T[]): T {
  const found = all.find((each) => each === text);
  if (found !== undefined) return found;
  throw wrong(flag, text, `one of ${all.join(", ")} is expected`);
}

/** Parses `host:port` or `:port`. @throws {OptionError} `OPTION_INVALID` */
export function address(
  flag: string,
  text: string,
): { readonly host?: string | undefined; readonly port: number } {
  const [, host = "", port = ""] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
  if (port === "" || Number(port) > 65_535) throw wrong(flag, text, "host:port is expected");
  return { port: Number(port), host: host === "" ? undefined : host.replace(/^\[|\]$/g, "") };
}

/** Turns a provider's name into a valid label value: a file's base name, or a package's name without `@` and `/`. */
export function labelValue(provider: string): string {
  const name = path.isAbsolute(provider) ? path.parse(provider).name : provider;
  return name
    .replaceAll(/[^\w.-]+/g, "-")
    .slice(0, 63)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}

function wrong(flag: string, text: string, expected: string): OptionError {
  return new OptionError("OPTION_INVALID", `Cannot use --${flag} ${text}: ${expected}`);
}
