import type { YamlText } from "./yaml-text.ts";

/** Characters for the letters after a backslash. */
const escapes: Readonly<Record<string, string>> = {
  "0": "\0",
  a: "\u0007",
  b: "\b",
  t: "\t",
  "\t": "\t",
  n: "\n",
  v: "\v",
  f: "\f",
  r: "\r",
  e: "\u001B",
  " ": " ",
  '"': '"',
  "/": "/",
  "\\": "\\",
  N: "\u0085",
  _: "\u00A0",
  L: "\u2028",
  P: "\u2029",
};

/** Start of a scalar. */
interface Start {
  readonly at: number;
  readonly parent: number;
}

/** Number of hexadecimal digits after an escape. */
const digits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Reads a scalar in single or double quotes, including the quotes.
 *
 * @param parent column of the enclosing collection; further lines of the scalar are indented more
 * @throws {YamlError}
 */
export function readQuoted(source: YamlText, parent: number): string {
  const start = { at: source.pos, parent };
  const quote = source.char();
  const isDouble = quote === '"';
  const parts: string[] = [];
  source.pos++;
  for (;;) {
    parts.push(readRun(source, quote));
    if (source.isEnd) throw source.error("this quote is not closed", start.at);
    if (source.char() === "\n") parts.push(foldLines(source, parts, start));
    else if (isDouble && source.char() === "\\") parts.push(readEscape(source, start));
    else if (!isDouble && source.char(1) === "'") {
      parts.push("'");
      source.pos += 2;
    } else {
      source.pos++;
      return parts.join("");
    }
  }
}

/** Reads up to a quote, a backslash in double quotes, or the line's end. */
function readRun(source: YamlText, quote: string): string {
  const special = quote === '"' ? /["\\\n]/g : /['\n]/g;
  special.lastIndex = source.pos;
  const end = special.exec(source.text)?.index ?? source.text.length;
  const run = source.text.slice(source.pos, end);
  source.pos = end;
  return run;
}

/** The first line break becomes a space, further ones stay line breaks. Spaces beside them are dropped unless escaped. */
function foldLines(source: YamlText, parts: string[], start: Start): string {
  // The last part is the unescaped text before the line break. The one before may be an escape.
  parts.push(withoutSpaceAtEnd(parts.pop() ?? ""));
  const breaks = skipLines(source, start);
  return breaks === 1 ? " " : "\n".repeat(breaks - 1);
}

/** Uses a loop, because a regular expression would retry from each space. */
function withoutSpaceAtEnd(text: string): string {
  let end = text.length;
  while (text[end - 1] === " " || text[end - 1] === "\t") end--;
  return text.slice(0, end);
}

/** Skips line breaks and the spaces after them. @returns the number of line breaks */
function skipLines(source: YamlText, start: Start): number {
  let breaks = 0;
  while (source.char() === "\n") {
    source.pos++;
    breaks++;
    if (source.isMarker()) throw source.error("this quote is not closed in its document", start.at);
    const lineStart = source.pos;
    while (source.char() === " ") source.pos++;
    const indent = source.pos - lineStart;
    source.skipSpace();
    if (!source.isEnd && source.char() !== "\n" && indent <= start.parent)
      throw source.error("this line of a text in quotes must be indented by more than its key");
  }
  return breaks;
}

function readEscape(source: YamlText, start: Start): string {
  const at = source.pos;
  const letter = source.char(1);
  source.pos += 2;
  if (letter === "\n") {
    source.pos--;
    return "\n".repeat(skipLines(source, start) - 1);
  }
  const count = Object.hasOwn(digits, letter) ? digits[letter] : undefined;
  if (count === undefined) {
    const text = Object.hasOwn(escapes, letter) ? escapes[letter] : undefined;
    if (text === undefined) throw source.error("there is no such escape; a backslash is \\\\", at);
    return text;
  }
  const hex = source.text.slice(source.pos, source.pos + count);
  const code = /^[\da-f]+$/i.test(hex) && hex.length === count ? Number.parseInt(hex, 16) : -1;
  if (code < 0 || code > 0x10_ff_ff)
    throw source.error(`"\\${letter}" needs ${count} hexadecimal digits of a character`, at);
  source.pos += count;
  // Two of them may be the halves of one character, as in JSON.
  return String.fromCodePoint(code);
}
