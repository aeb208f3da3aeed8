import { sizeOf, type YamlMap, type YamlNode } from "./yaml-node.ts";
import type { YamlText } from "./yaml-text.ts";

/** Maximum number of nodes in a document. Aliases count with all nodes that they refer to. */
export const maxNodes = 50_000;

/** Maximum nesting of lists and maps. */
export const maxDepth = 64;

const tags = ["!!binary", "!!str"] as const;

/** The properties before a value: `&anchor` and `!!tag`. */
export interface Properties {
  readonly at: number;
  readonly anchor?: string | undefined;
  readonly tag?: (typeof tags)[number] | undefined;
}

type MapEntries = Map<string, { readonly keyAt: number; readonly value: YamlNode }>;

/** Creates the nodes of one document, within the limits. */
export class Composer {
  readonly source: YamlText;
  readonly #anchors = new Map<string, YamlNode>();
  #nodes = 0;
  #depth = 0;

  constructor(source: YamlText) {
    this.source = source;
  }

  /** Reads a list or map, and checks the nesting limit. */
  nested<T>(read: () => T): T {
    if (++this.#depth > maxDepth)
      throw this.source.error(`more than ${maxDepth} lists and maps are inside of each other`);
    const result = read();
    this.#depth--;
    return result;
  }

  scalar(at: number, text: string, isPlain: boolean, properties?: Properties): YamlNode {
    this.#count(1, at);
    const tag = properties?.tag;
    const bytes = tag === "!!binary" ? this.#bytes(text, at) : undefined;
    return this.#anchored(
      { kind: "scalar", at, text, isPlain: isPlain && tag === undefined, bytes },
      properties,
    );
  }

  list(at: number, items: readonly YamlNode[], properties?: Properties): YamlNode {
    this.#count(1, at);
    let size = 1;
    for (const item of items) size += sizeOf(item);
    this.#refuseTag(properties);
    return this.#anchored({ kind: "list", at, items, size }, properties);
  }

  map(at: number, entries: YamlMap["entries"], properties?: Properties): YamlNode {
    this.#count(1, at);
    let size = 1;
    for (const { value } of entries.values()) size += 1 + sizeOf(value);
    this.#refuseTag(properties);
    return this.#anchored({ kind: "map", at, entries, size }, properties);
  }

  /** Adds a key to a map's entries. @throws {YamlError} if the key exists */
  addEntry(entries: MapEntries, key: string, keyAt: number, value: YamlNode): void {
    if (key === "<<") throw this.source.error('merge keys ("<<") are not supported', keyAt);
    if (entries.has(key)) throw this.source.error("this key is there twice", keyAt);
    this.#count(1, keyAt);
    entries.set(key, { keyAt, value });
  }

  /** Reads `*anchor`. */
  alias(): YamlNode {
    const at = this.source.pos++;
    const node = this.#anchors.get(this.#name(at));
    if (!node) throw this.source.error("there is no such anchor before it", at);
    this.#count(sizeOf(node), at);
    return node;
  }

  /** Reads `&anchor` and `!!tag` on one line, each with the space after it. Undefined if there is none. */
  properties(): Properties | undefined {
    const at = this.source.pos;
    let found: Properties | undefined;
    for (;;) {
      const char = this.source.char();
      const start = this.source.pos;
      if (char === "&" && found?.anchor === undefined) {
        this.source.pos++;
        found = { ...found, at, anchor: this.#name(start) };
      } else if (char === "!" && found?.tag === undefined) {
        found = { ...found, at, tag: this.#tag() };
      } else return found;
      this.source.skipSpace();
    }
  }

  #tag(): Properties["tag"] {
    const at = this.source.pos;
    const text = /[^\s,[\]{}]*/y;
    text.lastIndex = at;
    const word = text.exec(this.source.text)?.[0] ?? "";
    const tag = tags.find((known) => known === word);
    if (!tag) throw this.source.error(`of tags only ${tags.join(" and ")} are supported`, at);
    this.source.pos += word.length;
    return tag;
  }

  #name(at: number): string {
    const pattern = /[^\s,[\]{}]+/y;
    pattern.lastIndex = this.source.pos;
    const name = pattern.exec(this.source.text)?.[0];
    if (name === undefined) throw this.source.error("a name must follow", at);
    this.source.pos += name.length;
    return name;
  }

  #bytes(text: string, at: number): Uint8Array {
    const plain = text.replaceAll(/\s/g, "");
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(plain)) throw this.source.error("this is not base64", at);
    return Buffer.from(plain, "base64");
  }

  #refuseTag(properties: Properties | undefined): void {
    if (properties?.tag !== undefined)
      throw this.source.error(`"${properties.tag}" is for texts`, properties.at);
  }

  #anchored(node: YamlNode, properties: Properties | undefined): YamlNode {
    if (properties?.anchor !== undefined) this.#anchors.set(properties.anchor, node);
    return node;
  }

  #count(nodes: number, at: number): void {
    this.#nodes += nodes;
    if (this.#nodes > maxNodes)
      throw this.source.error(`the document has more than ${maxNodes} values and keys`, at);
  }
}
