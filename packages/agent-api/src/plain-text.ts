import { decode, type Decoder } from "@kip/base";

/** Control characters except line breaks and tabs, and characters that change the writing direction. */
const unshown = /(?!\r\n)[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Makes a text from a cell safe for a terminal. Replaces characters that would move the cursor or change colours by U+FFFD, and
 * limits the length to `maxLength` UTF-16 units.
 */
export function plainText(text: string, maxLength: number): string {
  const shown = text.slice(0, maxLength).toWellFormed().replaceAll(unshown, "\ufffd");
  // V8 keeps the whole text in memory for a part of it. A copy avoids that.
  return text.length > maxLength ? Buffer.from(shown).toString() : shown;
}

/** Decodes a text and applies {@link plainText}. */
export function plain(maxLength: number): Decoder<string> {
  return (value, path) => plainText(decode.string(value, path), maxLength);
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Decodes an RFC 3339 time, as the API server accepts it. @throws {DecodeError} code `DECODE_FAILED` */
export const rfc3339: Decoder<string> = (value, path) => {
  const text = decode.string(value, path);
  if (time.test(text) && Number.isFinite(Date.parse(text))) return text;
  throw decode.failure(path, "a time as 2026-01-31T00:00:00Z", value);
};
