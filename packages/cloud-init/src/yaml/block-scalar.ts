import type { YamlText } from "./yaml-text.ts";

interface Header {
  readonly isFolded: boolean;
  /** What happens to line breaks after the last line: keep all, keep one, or keep none. */
  readonly chomping: "+" | "-" | undefined;
  /** Columns of indentation. Undefined if the first line determines it. */
  readonly indent: number | undefined;
}

/** Reads a literal (`|`) or folded (`>`) scalar. @param parent column of the enclosing collection @throws {YamlError} */
export function readBlockScalar(source: YamlText, parent: number): string {
  const header = readHeader(source, parent);
  const lines = readLines(source, header.indent, parent);
  let lastLine = lines.length;
  while (lastLine > 0 && lines[lastLine - 1] === "") lastLine--;
  const content = lines.slice(0, lastLine);
  const text = header.isFolded ? fold(content) : content.join("\n");
  const emptyLines = "\n".repeat(lines.length - lastLine);
  if (header.chomping === "-") return text;
  if (header.chomping === "+") return lastLine === 0 ? emptyLines : `${text}\n${emptyLines}`;
  return lastLine === 0 ? "" : `${text}\n`;
}

function readHeader(source: YamlText, parent: number): Header {
  const isFolded = source.char() === ">";
  source.pos++;
  let chomping: Header["chomping"];
  let indent: number | undefined;
  for (;;) {
    const char = source.char();
    if (chomping === undefined && (char === "+" || char === "-")) chomping = char;
    else if (indent === undefined && /^[1-9]$/.test(char))
      indent = Math.max(parent, 0) + Number(char);
    else break;
    source.pos++;
  }
  if (!source.skipRestOfLine())
    throw source.error(
      `after "${isFolded ? ">" : "|"}" only + or -, a digit and a comment may stand`,
    );
  return { isFolded, chomping, indent };
}

/** The lines without their indentation, including empty ones at the end. Moves to the line break before what follows. */
function readLines(source: YamlText, fixed: number | undefined, parent: number): string[] {
  const lines: string[] = [];
  let indent = fixed;
  let deepestEmpty = 0;
  while (!source.isEnd) {
    const lineStart = source.pos + 1;
    const rest = source.text.slice(lineStart, lineAfter(source.text, lineStart));
    const spaces = rest.length - rest.replace(/^ +/, "").length;
    if (lineStart > source.text.length || (lineStart === source.text.length && rest === "")) break;
    const isEmpty = spaces === rest.length;
    if (indent === undefined && !isEmpty) {
      if (spaces <= parent || isMarkerAt(source, lineStart)) break;
      if (deepestEmpty > spaces)
        throw source.error(
          "empty lines before it are indented by more than the first line",
          lineStart,
        );
      indent = spaces;
    }
    if (!isEmpty && (spaces < (indent ?? 0) || isMarkerAt(source, lineStart))) break;
    if (indent === undefined) deepestEmpty = Math.max(deepestEmpty, spaces);
    lines.push(indent === undefined ? "" : rest.slice(indent));
    source.pos = lineStart + rest.length;
  }
  return lines;
}

function lineAfter(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end < 0 ? text.length : end;
}

function isMarkerAt(source: YamlText, at: number): boolean {
  return /^(?:---|\.\.\.)(?:\s|$)/.test(source.text.slice(at, at + 4));
}

/** Joins lines by spaces unless they are indented further. n empty lines between them become n line breaks. */
function fold(lines: readonly string[]): string {
  let text = "";
  let empty = 0;
  let previous: "none" | "text" | "indented" = "none";
  for (const line of lines) {
    if (line === "") {
      empty++;
      continue;
    }
    const kind = /^[ \t]/.test(line) ? "indented" : "text";
    const isJoined = previous === "text" && kind === "text";
    if (previous === "none") text += "\n".repeat(empty);
    else if (!isJoined) text += "\n".repeat(empty + 1);
    else text += empty === 0 ? " " : "\n".repeat(empty);
    text += line;
    previous = kind;
    empty = 0;
  }
  return text;
}
