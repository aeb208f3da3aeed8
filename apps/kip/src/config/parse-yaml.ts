import { Document, isMap, isScalar, isSeq, LineCounter, parseAllDocuments, type Node } from "yaml";

/** A YAML document with the line numbers of its keys. */
export interface ParsedDocument {
  /** Undefined if it is not valid YAML. */
  readonly content: unknown;
  /**
   * Why it is not valid YAML, with line numbers. The parser's own messages are left out, because they quote text that may be a
   * password.
   */
  readonly problems: readonly { readonly line: number | undefined; readonly message: string }[];
  /** The line of a key, from 1. If the document does not have the key, the line of the nearest enclosing one. */
  readonly lineOf: (path: readonly (string | number)[]) => number | undefined;
}

/** Parses a YAML document that a person wrote. A second one is a problem, but an empty one at the end is not. Never throws. */
export function parseYaml(text: string): ParsedDocument {
  const counter = new LineCounter();
  const all = parseAllDocuments(text, { lineCounter: counter, logLevel: "silent" });
  const [document = new Document(null), ...others] = "empty" in all ? [] : all;
  const second = others.find(({ contents }) => !isEmpty(contents));
  const lineAt = (offset: number | undefined): number | undefined =>
    offset === undefined ? undefined : counter.linePos(offset).line;
  const lineOf = (path: readonly (string | number)[]): number | undefined =>
    lineAt(offsetOf(document.contents, path));
  const problems = document.errors.map(({ code, pos }) => ({
    line: lineAt(pos[0]),
    message: code === "DUPLICATE_KEY" ? "this key is there twice" : "it is not valid YAML",
  }));
  if (second)
    problems.push({
      line: lineAt(second.contents?.range[0]),
      message: "a second YAML document begins here, where one alone is expected",
    });
  if (problems.length > 0) return { content: undefined, problems, lineOf };
  try {
    return { content: document.toJS() as unknown, problems, lineOf };
  } catch {
    // Aliases without an anchor, or too many aliases.
    const message = "it is not valid YAML: an alias cannot be followed";
    return { content: undefined, problems: [{ line: undefined, message }], lineOf };
  }
}

function isEmpty(contents: Node | null): boolean {
  return contents === null || (isScalar(contents) && contents.value === null);
}

/** The offset of the key at a path, or of its deepest ancestor that the document has. */
function offsetOf(root: Node | null, path: readonly (string | number)[]): number | undefined {
  let node: unknown = root;
  let offset: number | undefined;
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === part);
      if (!pair) break;
      offset = isScalar(pair.key) ? pair.key.range?.[0] : offset;
      node = pair.value;
    } else if (isSeq(node) && typeof part === "number") {
      node = node.items[part];
      offset = hasRange(node) ? node.range[0] : offset;
    } else break;
  }
  return offset;
}

function hasRange(node: unknown): node is { readonly range: readonly [number, number, number] } {
  return typeof node === "object" && node !== null && "range" in node && Array.isArray(node.range);
}
