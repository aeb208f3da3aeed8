import { OptionError } from "@kip/base";

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** The longest time that a timer of Node can wait, milliseconds. */
const longestMs = 2 ** 31 - 1;

/**
 * Parses a duration, as in `120s`, `2m`, `1m30s` or `500ms`. A number alone means seconds.
 *
 * @returns milliseconds
 * @throws {OptionError} `OPTION_INVALID`
 */
export function parseDuration(flag: string, text: string): number {
  const isNumber = /^\d+(?:\.\d+)?$/.test(text);
  const parts = [...(isNumber ? `${text}s` : text).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/gy)];
  const length = parts.reduce((total, [part]) => total + part.length, isNumber ? -1 : 0);
  const ms = parts.reduce((total, [, n, unit = ""]) => total + Number(n) * (unitMs[unit] ?? 0), 0);
  if (parts.length > 0 && length === text.length && ms <= longestMs) return Math.round(ms);
  throw new OptionError("OPTION_INVALID", `Cannot use --${flag} ${text}: a time is expected`, {
    remedy: `Write it like --${flag}=120s or --${flag}=2m; the longest is 24 days`,
  });
}
