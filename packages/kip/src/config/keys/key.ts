/** Why a value is invalid for its key, and what to write instead. Neither text contains secrets. */
export class Flaw {
  readonly reason: string;
  readonly remedy: string | undefined;

  constructor(reason: string, remedy?: string) {
    this.reason = reason;
    this.remedy = remedy;
  }
}

/** The allowed values of a key. */
export interface Kind<T> {
  /** Follows "expected" in messages, as in "a whole number of 1 or more". */
  readonly expected: string;
  /** The same in JSON Schema. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Whether messages must not quote the value. @default false */
  readonly isSecret?: boolean;
  /** Reads a value. Undefined if it is not as expected. Never throws. */
  readonly read: (value: unknown) => T | Flaw | undefined;
}

/** When a change of a key takes effect: while kip runs, for cells that start afterwards, or after a restart of kip. */
export type Reload = "live" | "restart";

/** Documentation of a key. */
export interface KeyFacts {
  /** For the documentation and the JSON Schema. Markdown, with links relative to `docs`. */
  readonly meaning?: string;
  /** The default, in the form in which a user would write it. */
  readonly fallback?: string;
  /** @default that of the enclosing section; "restart" at the top */
  readonly reload?: Reload;
  /** What replaces the key, if it has no effect. A sentence without its full stop. */
  readonly replacedBy?: string;
}

/** A key with one value. */
export interface ValueKey<T> extends KeyFacts {
  readonly kind: "value";
  readonly type: Kind<T>;
}

/** A key with a list. */
export interface ListKey<K> extends KeyFacts {
  readonly kind: "list";
  readonly of: K;
}

/** A key whose names below it are chosen by the user. */
export interface MapKey<K> extends KeyFacts {
  readonly kind: "map";
  readonly of: K;
}

/** A key with other keys below it. */
export interface SectionKey<F extends Keys> extends KeyFacts {
  readonly kind: "section";
  readonly keys: F;
  /** The required keys. @default none */
  readonly required?: readonly string[];
  /** Whether exactly one of the keys must be given. @default false */
  readonly isChoice?: boolean;
  /** The meaning of all other keys below it. @default they are errors */
  readonly others?: Key;
}

/** A key of the configuration, with everything below it. */
export type Key = ValueKey<unknown> | ListKey<Key> | MapKey<Key> | SectionKey<Keys>;

/** Keys by name. */
export interface Keys {
  readonly [name: string]: Key;
}

/** The type of a key's value after reading. */
export type Read<K> =
  K extends ValueKey<infer T>
    ? T
    : K extends ListKey<infer O>
      ? readonly Read<O>[]
      : K extends MapKey<infer O>
        ? Readonly<Record<string, Read<O>>>
        : K extends SectionKey<infer F>
          ? { readonly [N in keyof F]?: Read<F[N]> }
          : never;

export function value<T>(type: Kind<T>, facts: KeyFacts = {}): ValueKey<T> {
  return { kind: "value", type, ...facts };
}

export function list<K extends Key>(of: K, facts: KeyFacts = {}): ListKey<K> {
  return { kind: "list", of, ...facts };
}

export function map<K extends Key>(of: K, facts: KeyFacts = {}): MapKey<K> {
  return { kind: "map", of, ...facts };
}

export function section<F extends Keys>(
  keys: F,
  facts: KeyFacts & Pick<SectionKey<F>, "required" | "isChoice" | "others"> = {},
): SectionKey<F> {
  return { kind: "section", keys, ...facts };
}
