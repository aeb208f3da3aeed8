import { decode, type Decoder } from "@kip/base";

/** Control characters but line ends and tabs, and those that turn the direction of writing. */
const unshown = /(?!\r\n)[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/**
 * A text of a cell as it may be shown on a terminal: without characters that would move its cursor or
 * colour it, each replaced by U+FFFD, and of at most so many UTF-16 units.
 */
export function plainText(text: string, maxLength: number): string {
  const shown = text.slice(0, maxLength).toWellFormed().replaceAll(unshown, "\ufffd");
  // V8 keeps all of a text in memory for a part of it; a copy lets go of the rest.
  return text.length > maxLength ? Buffer.from(shown).toString() : shown;
}

/** Decodes a text as {@link plainText}. */
export function plain(maxLength: number): Decoder<string> {
  return (value, path) => plainText(decode.string(value, path), maxLength);
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Decodes a time of RFC 3339, as the API server reads it. @throws {DecodeError} code `DECODE_FAILED` */
export const rfc3339: Decoder<string> = (value, path) => {
  const text = decode.string(value, path);
  if (time.test(text) && Number.isFinite(Date.parse(text))) return text;
  throw decode.failure(path, "a time as 2026-01-31T00:00:00Z", value);
};
