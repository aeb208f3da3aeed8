import type { Key, Reload } from "./key.ts";

/** A key as a row of the documentation. */
export interface KeyRow {
  /** `[]` stands for the entries of a list, `<name>` for names that the user chooses. */
  readonly path: string;
  readonly fallback: string | undefined;
  readonly meaning: string;
  readonly reload: Reload;
  readonly replacedBy: string | undefined;
}

/** All keys that have their own meaning, or no longer have one, in the order of the table. */
export function keyRows(
  key: Key,
  { path = "", reload = "restart" }: { readonly path?: string; readonly reload?: Reload } = {},
): readonly KeyRow[] {
  const own = key.reload ?? reload;
  const { fallback, meaning, replacedBy } = key;
  const row: readonly KeyRow[] =
    meaning === undefined && replacedBy === undefined
      ? []
      : [{ path, fallback, meaning: meaning ?? "", reload: own, replacedBy }];
  // If a key has no effect, neither do the keys below it.
  if (replacedBy !== undefined) return row;
  return [
    ...row,
    ...below(key, path).flatMap(([place, each]) => keyRows(each, { path: place, reload: own })),
  ];
}

/** The path of each key without others below it. */
export function allPaths(key: Key, path = ""): readonly string[] {
  const inner = below(key, path);
  return inner.length === 0 ? [path] : inner.flatMap(([place, each]) => allPaths(each, place));
}

function below(key: Key, path: string): readonly (readonly [string, Key])[] {
  const join = (name: string): string => (path === "" ? name : `${path}.${name}`);
  switch (key.kind) {
    case "value":
      return [];
    case "list":
      return [[`${path}[]`, key.of]];
    case "map":
      return [[join("<name>"), key.of]];
    case "section":
      return Object.entries({
        ...key.keys,
        ...(key.others && { "<other>": key.others }),
      }).map(([name, each]) => [join(name), each] as const);
    default:
      return key satisfies never;
  }
}
