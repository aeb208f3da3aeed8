import { nearest } from "@kip/base";
import { Flaw, type Key, type Kind, type ListKey, type MapKey, type SectionKey } from "./key.ts";
import { allPaths } from "./key-rows.ts";

/** A path in the configuration: names, and indexes of lists. */
export type KeyPath = readonly (string | number)[];

/** A note on a path. */
export interface KeyNote {
  readonly path: KeyPath;
  /** Without the path, and without secrets. */
  readonly message: string;
  /** What to do, a sentence. */
  readonly remedy?: string | undefined;
}

/** Notes that result from reading. */
export interface KeyNotes {
  /** Problems that make the configuration unusable. */
  readonly problems: KeyNote[];
  /** Notices for its author: keys without effect, placeholders. */
  readonly notices: KeyNote[];
}

/** The text in the original's examples that users have to replace. */
const placeholder = "FILL_IN";

/** Reads a value by its key, and everything below it. Parts with a problem are missing in the result. */
export function readKey(key: Key, value: unknown, { path, notes, root }: Place): unknown {
  switch (key.kind) {
    case "value":
      return readValue(key.type, value, { path, notes, root });
    case "list":
      return readList(key, value, { path, notes, root });
    case "map":
      return readMap(key, value, { path, notes, root });
    case "section":
      return readSection(key, value, { path, notes, root });
    default:
      return key satisfies never;
  }
}

/** The current position. */
export interface Place {
  readonly path: KeyPath;
  readonly notes: KeyNotes;
  /** The whole table, to search it for misplaced keys. */
  readonly root: Key;
}

/** The path in the usual form: `cells.standbyCells[0].count`. */
export function pathText(path: KeyPath): string {
  return path
    .map((part, index) =>
      typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`,
    )
    .join("");
}

function readValue<T>(type: Kind<T>, value: unknown, { path, notes }: Place): T | undefined {
  const found = type.read(value);
  if (found === undefined) {
    const isQuotable = type.schema["type"] === "string" && typeof value !== "object";
    const message = `${type.expected} expected, found ${shown(value, type.isSecret)}`;
    notes.problems.push({ path, message, ...(isQuotable && { remedy: "Write it in quotes" }) });
    return undefined;
  }
  if (!(found instanceof Flaw)) return found;
  notes.problems.push({ path, message: found.reason, remedy: found.remedy });
  return undefined;
}

function readList({ of }: ListKey<Key>, value: unknown, place: Place): unknown {
  const { path, notes } = place;
  if (!Array.isArray(value)) {
    notes.problems.push({ path, message: `a list expected, found ${shown(value, true)}` });
    return undefined;
  }
  return value.flatMap((item: unknown, index) => {
    const at = { ...place, path: [...path, index] };
    if (isPlaceholder(item, at)) return [];
    const found = readKey(of, item, at);
    return found === undefined ? [] : [found];
  });
}

function readMap({ of }: MapKey<Key>, value: unknown, place: Place): unknown {
  const entries = Object.entries(asRecord(value, place) ?? {}).flatMap(([name, item]) => {
    const at = { ...place, path: [...place.path, name] };
    if (isPlaceholder(item, at)) return [];
    const found = readKey(of, item, at);
    return found === undefined ? [] : [[name, found] as const];
  });
  return Object.fromEntries(entries);
}

function readSection(key: SectionKey<Record<string, Key>>, value: unknown, place: Place): unknown {
  const { path, notes } = place;
  const source = asRecord(value ?? {}, place);
  if (!source) return undefined;
  const result: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(source)) {
    const own = Object.hasOwn(key.keys, name) ? key.keys[name] : key.others;
    const at = { ...place, path: [...path, name] };
    if (!own) notes.problems.push(unknownKey(name, key, at));
    else if (key.isChoice === true && item === placeholder) {
      const remedy = "Write its keys, or leave it empty if none are needed";
      notes.problems.push({
        path: at.path,
        message: `keys expected, found ${placeholder}`,
        remedy,
      });
    } else if (!isBlank(own, item, at)) {
      noteReplacement(own, at);
      result[name] = readKey(own, item, at);
    }
  }
  for (const name of key.required ?? []) {
    if (Object.hasOwn(result, name)) continue;
    notes.problems.push({ path: [...path, name], message: "it is missing or blank" });
  }
  return result;
}

/** Empty keys and placeholders count as absent. */
function isBlank(key: Key, value: unknown, place: Place): boolean {
  // "local:" without a value is a section without keys.
  if (value === undefined || value === null) return key.kind !== "section";
  if (key.kind === "value" && value === "") return true;
  return isPlaceholder(value, place);
}

function isPlaceholder(value: unknown, { path, notes }: Place): boolean {
  if (value !== placeholder) return false;
  const message = `${placeholder} counts as blank`;
  notes.notices.push({ path, message, remedy: "Fill it in, or remove the key" });
  return true;
}

/** Reports it once for a key, including everything below it. */
function noteReplacement({ replacedBy }: Key, { path, notes }: Place): void {
  if (replacedBy !== undefined)
    notes.notices.push({ path, message: `it has no effect: ${replacedBy}` });
}

/** Suggests the most similar key of the same section, or the key with that name elsewhere. */
function unknownKey(
  name: string,
  { keys }: SectionKey<Record<string, Key>>,
  { path, root }: Place,
): KeyNote {
  const message = "there is no such key";
  const near = nearest(name, Object.keys(keys));
  const before = path.slice(0, -1);
  if (near !== undefined)
    return { path, message, remedy: `Did you mean ${pathText([...before, near])}?` };
  const elsewhere = allPaths(root).find((each) => each.split(".").at(-1) === name);
  const remedy =
    elsewhere === undefined
      ? `Known keys here: ${Object.keys(keys).join(", ")}`
      : `Did you mean ${elsewhere}?`;
  return { path, message, remedy };
}

function asRecord(
  value: unknown,
  { path, notes }: Place,
): Readonly<Record<string, unknown>> | undefined {
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>; // checked by the line above
  notes.problems.push({ path, message: `keys expected, found ${shown(value, true)}` });
  return undefined;
}

/** What was found, in a few words. */
function shown(value: unknown, isSecret = false): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "keys";
  if (isSecret) return typeof value === "string" ? "text" : `a ${typeof value}`;
  return typeof value === "string" ? `the text "${value.slice(0, 64)}"` : JSON.stringify(value);
}
