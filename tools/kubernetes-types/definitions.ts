/** A definition of an OpenAPI 2 document, as far as types are made from it. */
export interface Definition {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly items?: Definition;
  readonly additionalProperties?: Definition;
  readonly properties?: Readonly<Record<string, Definition>>;
  readonly required?: readonly string[];
  /** Set by Kubernetes on the fields that say which kind an object is. */
  readonly enum?: readonly string[];
}

/** Definitions by their full names, such as `io.k8s.api.core.v1.Pod`. */
export type Definitions = Readonly<Record<string, Definition>>;

const kept: ReadonlySet<string> = new Set([
  "$ref",
  "type",
  "format",
  "items",
  "additionalProperties",
  "properties",
  "required",
]);

/** Full name of the definition that a reference names. */
export function referenced($ref: string): string {
  return $ref.slice("#/definitions/".length);
}

/** The definitions that `roots` need, sorted, without prose. @throws {RangeError} for an unknown name */
export function trim(all: Definitions, roots: readonly string[]): Definitions {
  const result = new Map<string, Definition>();
  const open = [...roots];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (result.has(name)) continue;
    const definition = all[name];
    if (!definition) throw new RangeError(`Cannot find the definition "${name}"`);
    const structure = withoutProse(definition);
    result.set(name, structure);
    for (const [, $ref = ""] of JSON.stringify(structure).matchAll(/"\$ref":"([^"]+)"/g))
      open.push(referenced($ref));
  }
  return Object.fromEntries([...result].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function withoutProse(definition: Definition): Definition {
  const entries = Object.entries(definition).filter(([key]) => kept.has(key));
  return Object.fromEntries(
    entries.map(([key, value]) => {
      if (key === "properties") return [key, mapValues(value as Definitions, withoutProse)]; // by its key
      if (key === "items" || key === "additionalProperties")
        return [key, withoutProse(value as Definition)]; // by its key
      return [key, value as unknown];
    }),
  );
}

function mapValues<T>(
  record: Readonly<Record<string, T>>,
  map: (value: T) => T,
): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
