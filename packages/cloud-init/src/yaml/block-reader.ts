import { readBlockScalar } from "./block-scalar.ts";
import type { Composer, Properties } from "./composer.ts";
import { readFlow } from "./flow-reader.ts";
import { isColon, readLine, readPlain, startsPlain } from "./plain-scalar.ts";
import { readQuoted } from "./quoted-scalar.ts";
import type { YamlNode } from "./yaml-node.ts";
import type { YamlText } from "./yaml-text.ts";

/** What comes before a value on its line: nothing, a list's dash, or a key or the start of the document. */
type Before = "nothing" | "dash" | "key";

interface Position {
  /** Column of the enclosing collection. -1 for the document. */
  readonly parent: number;
  readonly before: Before;
  /** Whether a list may begin in the column of the enclosing collection, as below a key. */
  readonly listAtParent: boolean;
}

/** Parses the only document of a text. @throws {YamlError} */
export function readDocument(composer: Composer): YamlNode {
  const { source } = composer;
  let before: Before = "nothing";
  if (startsMarker(source)) {
    source.pos += 3;
    before = "key";
  }
  const root = readBlock(composer, { parent: -1, before, listAtParent: false });
  endValue(source);
  if (source.skipToContent() >= 0)
    throw source.error("this belongs to no list, map or text before it");
  if (source.isMarker() && source.char() === ".") {
    source.pos += 3;
    if (!source.skipRestOfLine()) throw source.error("only a comment may follow");
    source.skipToContent();
  }
  if (!source.isEnd) throw source.error("there must be one document only");
  return root;
}

function startsMarker(source: YamlText): boolean {
  if (source.skipToContent() >= 0 || !source.isMarker()) {
    if (source.char() === "%") throw source.error("directives are not supported");
    // The first line may be indented, so parse it again from its start.
    source.pos = source.pos - source.column();
    return false;
  }
  if (source.char() === ".") throw source.error("a document must begin before its end");
  return true;
}

function readBlock(composer: Composer, position: Position): YamlNode {
  const { source } = composer;
  let { before } = position;
  if (moveToValue(source, position)) before = "nothing";
  else if (source.isEnd || source.char() === "\n") return emptyScalar(composer);
  const properties = composer.properties();
  if (!properties) return readContent(composer, { ...position, before }, undefined);
  const moved = { ...position, before: "key" } as const;
  if (!source.skipRestOfLine()) return readContent(composer, moved, properties);
  if (!moveToValue(source, position)) return composer.scalar(properties.at, "", true, properties);
  return readContent(composer, { ...position, before: "nothing" }, properties);
}

function emptyScalar(composer: Composer): YamlNode {
  return composer.scalar(composer.source.pos, "", true);
}

/**
 * Moves to the value, which may be on a later line.
 *
 * @returns whether the value begins its line. If false, it is on the current line, or there is no value and this is the line's
 * end
 */
function moveToValue(source: YamlText, { parent, before, listAtParent }: Position): boolean {
  const start = source.pos;
  if (!source.skipRestOfLine() && !(before === "nothing" && source.column() === 0)) {
    source.skipSpace();
    return false;
  }
  const lineEnd = source.pos;
  const column = source.skipToContent();
  const isList = listAtParent && column === parent && source.char() === "-" && source.isBlank(1);
  if (column > parent || isList) return true;
  source.pos = before === "nothing" ? start : lineEnd;
  if (before === "nothing") source.pos = source.lineEnd();
  return false;
}

function readContent(
  composer: Composer,
  position: Position,
  properties: Properties | undefined,
): YamlNode {
  const { source } = composer;
  const at = source.pos;
  const char = source.char();
  if (char === "|" || char === ">")
    return composer.scalar(at, readBlockScalar(source, position.parent), false, properties);
  if (char === "[" || char === "{") return ended(source, readFlow(composer, properties));
  if (char === "*" && !properties) return ended(source, composer.alias());
  if (char === "-" && source.isBlank(1)) {
    refuseBeside(source, position.before, "a list must begin on a line of its own");
    return composer.nested(() => readList(composer, properties));
  }
  if (char === "?" && source.isBlank(1)) throw source.error('keys with "? " are not supported');
  if (isKey(source)) {
    refuseBeside(source, position.before, 'a text with ": " needs quotes here');
    return composer.nested(() => readMap(composer, properties));
  }
  return readScalar(composer, position.parent, properties);
}

function refuseBeside(source: YamlText, before: Before, message: string): void {
  if (before === "key") throw source.error(message);
}

/** Checks that nothing follows a value on its line. */
function ended(source: YamlText, node: YamlNode): YamlNode {
  endValue(source);
  return node;
}

function endValue(source: YamlText): void {
  if (!source.skipRestOfLine()) throw source.error("only a comment may follow a value");
}

function readScalar(
  composer: Composer,
  parent: number,
  properties: Properties | undefined,
): YamlNode {
  const { source } = composer;
  const at = source.pos;
  if (source.char() === '"' || source.char() === "'")
    return ended(source, composer.scalar(at, readQuoted(source, parent), false, properties));
  if (!startsPlain(source, false))
    throw source.error("a value cannot begin with this character; quote it");
  const text = readPlain(source, { parent, inFlow: false });
  return ended(source, composer.scalar(at, text, true, properties));
}

function readList(composer: Composer, properties: Properties | undefined): YamlNode {
  const { source } = composer;
  const at = source.pos;
  const column = source.column();
  const items: YamlNode[] = [];
  do {
    source.pos++;
    items.push(readBlock(composer, { parent: column, before: "dash", listAtParent: false }));
  } while (nextEntry(source, column) && source.char() === "-" && source.isBlank(1));
  return composer.list(at, items, properties);
}

function readMap(composer: Composer, properties: Properties | undefined): YamlNode {
  const { source } = composer;
  const at = source.pos;
  const column = source.column();
  const entries: Map<string, { keyAt: number; value: YamlNode }> = new Map();
  do {
    const keyAt = source.pos;
    if (!isKey(source))
      throw source.error('"key: value" must stand here, like on the lines before');
    const key = readKey(source);
    source.skipSpace();
    source.pos++;
    const value = readBlock(composer, { parent: column, before: "key", listAtParent: true });
    composer.addEntry(entries, key, keyAt, value);
  } while (nextEntry(source, column));
  return composer.map(at, entries, properties);
}

/** Moves to the next entry of a list or map. @returns whether there may be one. If false, the position is unchanged */
function nextEntry(source: YamlText, column: number): boolean {
  const start = source.pos;
  const next = source.skipToContent();
  if (next === column) return true;
  if (next > column)
    throw source.error("this line is indented by more than the ones it belongs to");
  source.pos = start;
  return false;
}

function readKey(source: YamlText): string {
  return source.char() === '"' || source.char() === "'"
    ? readQuoted(source, -1)
    : readLine(source, false);
}

/** Whether this line has a key with its colon. */
function isKey(source: YamlText): boolean {
  const start = source.pos;
  const isQuoted = source.char() === '"' || source.char() === "'";
  if (!isQuoted && !startsPlain(source, false)) return false;
  const end = source.lineEnd();
  readKey(source);
  source.skipSpace();
  const found = isColon(source, false) && source.pos < end;
  source.pos = start;
  return found;
}
