import type { YamlText } from "./yaml-text.ts";

/** Context of a scalar. */
export interface ScalarContext {
  /** Column of the enclosing collection. Further lines of the scalar are indented more. -1 for the document. */
  readonly parent: number;
  /** Whether it is in brackets or braces, which end it. */
  readonly inFlow: boolean;
}

const flowIndicators = ",[]{}";

/** Whether a plain scalar may begin here. */
export function startsPlain(source: YamlText, inFlow: boolean): boolean {
  const char = source.char();
  if ("-?:".includes(char))
    return !source.isBlank(1) && !(inFlow && flowIndicators.includes(source.char(1)));
  return !"`@%\"'|>!&*#".includes(char) && !flowIndicators.includes(char);
}

/** Reads an unquoted scalar of one or more lines, which are folded into one. */
export function readPlain(source: YamlText, context: ScalarContext): string {
  let text = readLine(source, context.inFlow);
  for (;;) {
    const start = source.pos;
    const breaks = nextLine(source, context);
    const line = breaks === 0 ? "" : readLine(source, context.inFlow);
    if (line === "") {
      source.pos = start;
      return text;
    }
    text += (breaks === 1 ? " " : "\n".repeat(breaks - 1)) + line;
    if (!context.inFlow && isColon(source, false))
      throw source.error("a key must be indented like the ones before it, and stand on one line");
  }
}

/** Reads the scalar's part on this line, without trailing spaces. Empty if the next character does not belong to it. */
export function readLine(source: YamlText, inFlow: boolean): string {
  const { text } = source;
  const start = source.pos;
  let end = start;
  for (; source.pos < text.length; source.pos++) {
    const char = source.char();
    if (char === "\n" || isColon(source, inFlow)) break;
    if (inFlow && flowIndicators.includes(char)) break;
    const isSpace = char === " " || char === "\t";
    if (char === "#" && (source.pos === start || end < source.pos)) break;
    if (!isSpace) end = source.pos + 1;
  }
  source.pos = end;
  return text.slice(start, end);
}

/** Whether the next character is the colon of a key. */
export function isColon(source: YamlText, inFlow: boolean): boolean {
  if (source.char() !== ":") return false;
  return source.isBlank(1) || (inFlow && flowIndicators.includes(source.char(1)));
}

/** Moves to the scalar's next line. @returns number of line breaks on the way; 0 if the scalar ends before */
function nextLine(source: YamlText, { parent, inFlow }: ScalarContext): number {
  source.skipSpace();
  let breaks = 0;
  while (source.char() === "\n") {
    source.pos++;
    breaks++;
    const start = source.pos;
    if (source.isMarker()) return 0;
    while (source.char() === " ") source.pos++;
    const indent = source.pos - start;
    source.skipSpace();
    if (!inFlow && source.char() !== "\n" && indent <= parent) return 0;
  }
  return source.isEnd ? 0 : breaks;
}
