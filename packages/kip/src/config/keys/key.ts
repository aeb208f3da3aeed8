/** Why a value is not what its key takes, and what to write instead; both without secrets. */
export class Flaw {
  readonly reason: string;
  readonly remedy: string | undefined;

  constructor(reason: string, remedy?: string) {
    this.reason = reason;
    this.remedy = remedy;
  }
}

/** What a single value may be. */
export interface Kind<T> {
  /** Follows "expected", for example "a whole number of 1 or more". */
  readonly expected: string;
  /** The same in JSON Schema. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Whether messages must not quote the value. @default false */
  readonly isSecret?: boolean;
  /** The value that was read; undefined: it is something else than expected. Never throws. */
  readonly read: (value: unknown) => T | Flaw | undefined;
}

/** When a change of a key takes effect: while kip runs, for cells that start afterwards; or with the next start of kip. */
export type Reload = "live" | "restart";

/** What people should know of a key. */
export interface KeyFacts {
  /** For the documentation, the JSON Schema and its readers. Markdown; links are relative to `docs`. */
  readonly meaning?: string;
  /** What counts without the key, as it would be written. */
  readonly fallback?: string;
  /** @default that of the section around it; "restart" at the top */
  readonly reload?: Reload;
  /** The key has no effect: what replaces it, a sentence without its end. */
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

/** A key with names of the reader's own below it. */
export interface MapKey<K> extends KeyFacts {
  readonly kind: "map";
  readonly of: K;
}

/** A key with further keys below it. */
export interface SectionKey<F extends Keys> extends KeyFacts {
  readonly kind: "section";
  readonly keys: F;
  /** Those that must be given. @default none */
  readonly required?: readonly string[];
  /** Whether exactly one of the keys must be given. @default false */
  readonly isChoice?: boolean;
  /** What any other key below it is. @default an error */
  readonly others?: Key;
}

/** A key of the configuration, with all that is below it. */
export type Key = ValueKey<unknown> | ListKey<Key> | MapKey<Key> | SectionKey<Keys>;

/** Keys by name. */
export interface Keys {
  readonly [name: string]: Key;
}

/** The value of a key after it was read. */
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
