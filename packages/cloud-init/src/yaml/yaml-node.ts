/** A value of a YAML document, with the offset of its first character. */
export type YamlNode = YamlScalar | YamlList | YamlMap;

/** A text; null, numbers and Booleans are texts that {@link plainValue} makes values of. */
export interface YamlScalar {
  readonly kind: "scalar";
  readonly at: number;
  readonly text: string;
  /** Without quotes, not a block, and without a tag: may be something other than a text. */
  readonly isPlain: boolean;
  /** Of `!!binary`. */
  readonly bytes?: Uint8Array | undefined;
}

/** A block or flow sequence. */
export interface YamlList {
  readonly kind: "list";
  readonly at: number;
  readonly items: readonly YamlNode[];
  /** Nodes in it, itself included; aliases count with all that they stand for. */
  readonly size: number;
}

/** A block or flow mapping. Its keys are texts. */
export interface YamlMap {
  readonly kind: "map";
  readonly at: number;
  readonly entries: ReadonlyMap<string, { readonly keyAt: number; readonly value: YamlNode }>;
  /** As of a {@link YamlList}; each key counts too. */
  readonly size: number;
}

/** Nodes of a value, itself included. */
export function sizeOf(node: YamlNode): number {
  return node.kind === "scalar" ? 1 : node.size;
}

/**
 * A document as lists, objects without a prototype, texts, numbers, Booleans, null and bytes.
 *
 * A plain scalar is null, a Boolean or a number where YAML 1.2's core schema says so and, for numbers, where the number
 * is written as JSON would write it: `0644`, `1.0` and `0x1f` stay the texts that they are, and so do `yes` and `on`.
 */
export function valueOf(node: YamlNode): unknown {
  if (node.kind === "scalar")
    return node.bytes ?? (node.isPlain ? plainValue(node.text) : node.text);
  if (node.kind === "list") return node.items.map((item) => valueOf(item));
  const object = Object.create(null) as Record<string, unknown>; // no key can be "__proto__" of anything
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

/** The offset of the key or item that a path leads to; of the deepest one on the way if there is no such. */
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
