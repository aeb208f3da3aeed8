/** A value of a YAML document, with the offset of its first character. */
export type YamlNode = YamlScalar | YamlList | YamlMap;

/** A text. Null, numbers and Booleans are texts that {@link plainValue} converts. */
export interface YamlScalar {
  readonly kind: "scalar";
  readonly at: number;
  readonly text: string;
  /** Whether it is unquoted, not a block, and without a tag. Only such a scalar may be something other than text. */
  readonly isPlain: boolean;
  /** Decoded value of `!!binary`. */
  readonly bytes?: Uint8Array | undefined;
}

/** A block or flow sequence. */
export interface YamlList {
  readonly kind: "list";
  readonly at: number;
  readonly items: readonly YamlNode[];
  /** Number of nodes in it, including itself. Aliases count with all nodes that they refer to. */
  readonly size: number;
}

/** A block or flow mapping. Its keys are text. */
export interface YamlMap {
  readonly kind: "map";
  readonly at: number;
  readonly entries: ReadonlyMap<string, { readonly keyAt: number; readonly value: YamlNode }>;
  /** As in a {@link YamlList}. Each key also counts. */
  readonly size: number;
}

/** Number of nodes of a value, including itself. */
export function sizeOf(node: YamlNode): number {
  return node.kind === "scalar" ? 1 : node.size;
}

/**
 * Converts a document to lists, objects without a prototype, texts, numbers, Booleans, null and bytes.
 *
 * A plain scalar is null, a Boolean or a number as in YAML 1.2's core schema. But numbers must be written as JSON would write
 * them: `0644`, `1.0` and `0x1f` stay text, and so do `yes` and `on`.
 */
export function valueOf(node: YamlNode): unknown {
  if (node.kind === "scalar")
    return node.bytes ?? (node.isPlain ? plainValue(node.text) : node.text);
  if (node.kind === "list") return node.items.map((item) => valueOf(item));
  const object = Object.create(null) as Record<string, unknown>; // so a key "__proto__" has no effect
  for (const [key, { value }] of node.entries) object[key] = valueOf(value);
  return object;
}

function plainValue(text: string): unknown {
  if (/^(?:|~|null|Null|NULL)$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  if (!/^-?[\d.]/.test(text)) return text;
  const number = Number(text);
  return Number.isFinite(number) && String(number) === text ? number : text;
}

/** The offset of the key or item at a path, or of the deepest existing one on the path. */
export function offsetAt(root: YamlNode, path: readonly (string | number)[]): number {
  let node = root;
  let offset = root.at;
  for (const part of path) {
    if (node.kind === "scalar") break;
    if (node.kind === "map") {
      const entry = node.entries.get(String(part));
      if (!entry) break;
      offset = entry.keyAt;
      node = entry.value;
    } else {
      const item: YamlNode | undefined = typeof part === "number" ? node.items[part] : undefined;
      if (!item) break;
      offset = item.at;
      node = item;
    }
  }
  return offset;
}
