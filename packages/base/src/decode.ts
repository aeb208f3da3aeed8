import { DecodeError } from "./errors.ts";
import { nearest } from "./nearest.ts";

/** Turns an unknown value into a `T`. Throws {@link DecodeError} `DECODE_FAILED`, naming the path. */
export type Decoder<T> = (value: unknown, path: string) => T;

/** The type a decoder returns. */
export type Decoded<D> = D extends Decoder<infer T> ? T : never;

/** The error for a value that is not of the expected form. */
export function failure(path: string, expected: string, value: unknown): DecodeError {
  const shown = value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  return new DecodeError(
    "DECODE_FAILED",
    `Cannot read "${path}": ${expected} expected, got ${shown}`,
  );
}

function fail(path: string, expected: string, value: unknown): never {
  throw failure(path, expected, value);
}

/** Any text. */
export const string: Decoder<string> = (value, path) =>
  typeof value === "string" ? value : fail(path, "text", value);

/** A finite number. */
export const number: Decoder<number> = (value, path) =>
  typeof value === "number" && Number.isFinite(value) ? value : fail(path, "a number", value);

/** An integer within JavaScript's safe range. */
export const integer: Decoder<number> = (value, path) =>
  Number.isSafeInteger(value) ? (value as number) : fail(path, "a whole number", value);

/** A number that the inner decoder accepts, from `min` to `max`. */
export function between(inner: Decoder<number>, min: number, max: number): Decoder<number> {
  return (value, path) => {
    const found = inner(value, path);
    return found >= min && found <= max ? found : fail(path, `${min} to ${max}`, value);
  };
}

/** A signed 32-bit integer, as in objects of the Kubernetes API. */
export const int32: Decoder<number> = between(integer, -(2 ** 31), 2 ** 31 - 1);

export const boolean: Decoder<boolean> = (value, path) =>
  typeof value === "boolean" ? value : fail(path, "true or false", value);

/** Any value, unchecked. */
export const unknownValue: Decoder<unknown> = (value) => value;

/** One of the given texts. */
export function oneOf<const T extends string>(...allowed: readonly T[]): Decoder<T> {
  return (value, path) => {
    const found = allowed.find((candidate) => candidate === value);
    return found ?? fail(path, `one of ${allowed.join(", ")}`, value);
  };
}

/** A limit for the entries of a list or map. */
export interface CountLimit {
  /** A value with more entries is refused before any of them is decoded. @default no limit */
  readonly max?: number;
}

/** A list whose entries all decode. */
export function list<T>(entry: Decoder<T>, limit: CountLimit = {}): Decoder<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) return fail(path, "a list", value);
    checkCount(value.length, limit, { path, value });
    return value.map((item, index) => entry(item, `${path}[${index}]`));
  };
}

/** An object used as a map. */
export function map<T>(
  entry: Decoder<T>,
  limit: CountLimit = {},
): Decoder<Readonly<Record<string, T>>> {
  return (value, path) => {
    const entries = Object.entries(record(value, path));
    checkCount(entries.length, limit, { path, value });
    return Object.fromEntries(
      entries.map(([key, item]) => [key, entry(item, `${path}.${key}`)] as const),
    );
  };
}

function checkCount(
  count: number,
  { max = Number.POSITIVE_INFINITY }: CountLimit,
  { path, value }: { readonly path: string; readonly value: unknown },
): void {
  if (count > max) fail(path, `at most ${max} entries`, value);
}

/** A value that may be absent. Undefined and null count as absent. */
export function optional<T>(inner: Decoder<T>): Decoder<T | undefined> {
  return (value, path) => (value === undefined || value === null ? undefined : inner(value, path));
}

type Fields = Readonly<Record<string, Decoder<unknown>>>;
type Shape<F extends Fields> = {
  readonly [K in keyof F as undefined extends Decoded<F[K]> ? never : K]: Decoded<F[K]>;
} & {
  readonly [K in keyof F as undefined extends Decoded<F[K]> ? K : never]?: Decoded<F[K]>;
};

/**
 * An object with known fields. `optional` fields that are absent stay absent.
 *
 * @param fields the decoder of each field
 * @param options `unknownKeys`: "ignore" for wire data, "reject" for files that people write
 */
export function object<F extends Fields>(
  fields: F,
  options: { readonly unknownKeys: "ignore" | "reject" } = { unknownKeys: "ignore" },
): Decoder<Shape<F>> {
  return (value, path) => {
    const source = record(value, path);
    if (options.unknownKeys === "reject") rejectUnknownKeys(source, Object.keys(fields), path);
    const result: Record<string, unknown> = {};
    for (const [key, decoder] of Object.entries(fields)) {
      const decoded = decoder(source[key], path === "" ? key : `${path}.${key}`);
      if (decoded !== undefined) result[key] = decoded;
    }
    return result as Shape<F>; // every field was decoded above
  };
}

function record(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    fail(path, "an object", value);
  return value as Readonly<Record<string, unknown>>; // checked by the line above
}

function rejectUnknownKeys(
  source: Readonly<Record<string, unknown>>,
  known: readonly string[],
  path: string,
): void {
  for (const key of Object.keys(source)) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const where = path === "" ? key : `${path}.${key}`;
    throw new DecodeError("DECODE_FAILED", `Cannot read "${where}": there is no such key`, {
      remedy:
        near === undefined ? `Known keys here: ${known.join(", ")}` : `Did you mean "${near}"?`,
    });
  }
}
