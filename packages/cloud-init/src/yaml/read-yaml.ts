import { readDocument } from "./block-reader.ts";
import { Composer } from "./composer.ts";
import { offsetAt, valueOf } from "./yaml-node.ts";
import { YamlText } from "./yaml-text.ts";

/** What a YAML document says, and where. */
export interface YamlDocument {
  /** As of `valueOf`. */
  readonly value: unknown;
  /** Line and column, from 1, of the key or item that a path leads to, or of the deepest one on the way. */
  placeOf(path: readonly (string | number)[]): { readonly line: number; readonly column: number };
}

/**
 * Reads one YAML document, in the part of YAML 1.2 that cloud-configs are written in: block and flow collections, all
 * five kinds of scalars, comments, anchors and aliases, and the tags `!!binary` and `!!str`.
 *
 * What it takes means what it means in YAML 1.2. It refuses what is not in that part (directives, other tags, merge keys,
 * keys that are not texts, two documents), and a key that is there twice. At most 50,000 values, 64 levels.
 *
 * @throws {YamlError} with line and column
 */
export function readYaml(text: string): YamlDocument {
  const source = new YamlText(text);
  const root = readDocument(new Composer(source));
  return {
    value: valueOf(root),
    placeOf: (path) => source.placeOf(offsetAt(root, path)),
  };
}
