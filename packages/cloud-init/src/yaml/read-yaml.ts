import { readDocument } from "./block-reader.ts";
import { Composer } from "./composer.ts";
import { offsetAt, valueOf } from "./yaml-node.ts";
import { YamlText } from "./yaml-text.ts";

/** The content of a YAML document, with positions. */
export interface YamlDocument {
  /** The result of `valueOf`. */
  readonly value: unknown;
  /** Line and column, from 1, of the key or item at a path, or of the deepest existing one on the path. */
  placeOf(path: readonly (string | number)[]): { readonly line: number; readonly column: number };
}

/**
 * Parses one YAML document in the subset of YAML 1.2 that cloud-configs use: block and flow collections, all five kinds of
 * scalars, comments, anchors and aliases, and the tags `!!binary` and `!!str`.
 *
 * Accepted documents have the same meaning as in YAML 1.2. It refuses everything else (directives, other tags, merge keys, keys
 * that are not text, two documents), and duplicate keys. At most 50,000 values and 64 levels.
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
