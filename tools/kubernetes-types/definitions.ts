/** The parts of an OpenAPI 2 definition from which types are generated. */
export interface Definition {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly items?: Definition;
  readonly additionalProperties?: Definition;
  readonly properties?: Readonly<Record<string, Definition>>;
  readonly required?: readonly string[];
  /** Kubernetes sets it on the fields for an object's kind. */
  readonly enum?: readonly string[];
}

/** Definitions by full name, such as `io.k8s.api.core.v1.Pod`. */
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

/** The full name in a reference. */
export function referenced($ref: string): string {
  return $ref.slice("#/definitions/".length);
}

/** The definitions that `roots` need, sorted and without descriptions. @throws {RangeError} for an unknown name */
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
      if (key === "properties") return [key, mapValues(value as Definitions, withoutProse)]; // the key determines the type
      if (key === "items" || key === "additionalProperties")
        return [key, withoutProse(value as Definition)]; // the key determines the type
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
