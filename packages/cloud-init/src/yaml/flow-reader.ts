import type { Composer, Properties } from "./composer.ts";
import { isColon, readPlain, startsPlain } from "./plain-scalar.ts";
import { readQuoted } from "./quoted-scalar.ts";
import type { YamlMap, YamlNode } from "./yaml-node.ts";

/** Reads a list in brackets or a map in braces, which may span several lines. @throws {YamlError} */
export function readFlow(composer: Composer, properties: Properties | undefined): YamlNode {
  const isList = composer.source.char() === "[";
  return composer.nested(() =>
    isList ? readList(composer, properties) : readMap(composer, properties),
  );
}

function readList(composer: Composer, properties: Properties | undefined): YamlNode {
  const { source } = composer;
  const at = source.pos++;
  const items: YamlNode[] = [];
  while (nextItem(composer, "]", at)) {
    items.push(readValue(composer));
    skipSpace(composer, at);
    if (source.char() === ":")
      throw source.error("a map in a list needs braces of its own: [{key: value}]");
    endItem(composer, "]");
  }
  return composer.list(at, items, properties);
}

function readMap(composer: Composer, properties: Properties | undefined): YamlNode {
  const { source } = composer;
  const at = source.pos++;
  const entries: Map<string, { keyAt: number; value: YamlNode }> = new Map();
  while (nextItem(composer, "}", at)) {
    const keyAt = source.pos;
    const isQuoted = source.char() === '"' || source.char() === "'";
    const key = readKey(composer, isQuoted);
    skipSpace(composer, at);
    let value: YamlNode | undefined;
    if (isQuoted ? source.char() === ":" : isColon(source, true)) {
      source.pos++;
      skipSpace(composer, at);
      value = ",}".includes(source.char()) ? undefined : readValue(composer);
      skipSpace(composer, at);
    }
    composer.addEntry(entries, key, keyAt, value ?? composer.scalar(source.pos, "", true));
    endItem(composer, "}");
  }
  return composer.map(at, entries satisfies YamlMap["entries"], properties);
}

/** Moves to the next item. @returns false if there is none; the position is then after the bracket */
function nextItem(composer: Composer, end: string, start: number): boolean {
  const { source } = composer;
  skipSpace(composer, start);
  if (source.char() === end) {
    source.pos++;
    return false;
  }
  if (source.char() === ",") throw source.error("there is nothing between two commas");
  return true;
}

/** Expects a comma or the closing bracket after an item. The caller reads the bracket. */
function endItem({ source }: Composer, end: string): void {
  if (source.char() === ",") source.pos++;
  else if (source.char() !== end) throw source.error(`"," or "${end}" must follow`);
}

function readKey({ source }: Composer, isQuoted: boolean): string {
  if (isQuoted) return readQuoted(source, -1);
  if (!startsPlain(source, true)) throw source.error("a key must be a text");
  return readPlain(source, { parent: -1, inFlow: true });
}

function readValue(composer: Composer): YamlNode {
  const { source } = composer;
  const properties = composer.properties();
  if (properties) skipSpace(composer, properties.at);
  const at = source.pos;
  const char = source.char();
  if (char === "*" && !properties) return composer.alias();
  if (char === "[" || char === "{") return readFlow(composer, properties);
  if (char === '"' || char === "'")
    return composer.scalar(at, readQuoted(source, -1), false, properties);
  if (startsPlain(source, true))
    return composer.scalar(at, readPlain(source, { parent: -1, inFlow: true }), true, properties);
  if (properties && ",]}".includes(char)) return composer.scalar(at, "", true, properties);
  throw source.error("a value cannot begin with this character; quote it");
}

/** Skips spaces, line breaks and comments. @param start of the brackets, for the message at the document's end */
function skipSpace({ source }: Composer, start: number): void {
  for (;;) {
    if (!source.skipRestOfLine()) break;
    if (source.isEnd) throw source.error("this bracket is not closed", start);
    source.pos++;
    if (source.isMarker()) throw source.error("this bracket is not closed in its document", start);
  }
  source.skipSpace();
}
