import { createHash, randomBytes } from "node:crypto";
import { decode, type Decoder } from "@kip/base";

/** Into how many parts a table of Services is cut, to find out which parts differ. */
export const bucketCount = 64;

/** 48 bits: sums of two stay exact. */
const modulus = 2 ** 48;

/**
 * Sums that tell two tables apart without comparing their lines: one per bucket of keys. Changing a line takes the same
 * time in a table of any size.
 */
export class TableDigest {
  readonly #sums: number[] = Array<number>(bucketCount).fill(0);

  /** The sum of each bucket; 0 for an empty one. */
  get sums(): readonly number[] {
    return this.#sums;
  }

  /** Notes that the line of a key has changed; undefined stands for no line. */
  change(key: string, before: string | undefined, after: string | undefined): void {
    if (before === after) return;
    const bucket = bucketOf(key);
    const minus = before === undefined ? 0 : modulus - lineHash(before);
    const plus = after === undefined ? 0 : lineHash(after);
    this.#sums[bucket] = ((this.#sums[bucket] ?? 0) + minus + plus) % modulus;
  }
}

/** Sums of a table that is not known: random, so each bucket of any table differs, also an empty one. */
export function unknownSums(): readonly number[] {
  const bytes = randomBytes(6 * bucketCount);
  return Array.from({ length: bucketCount }, (_, bucket) => bytes.readUIntBE(6 * bucket, 6));
}

/** The bucket of a key, 0 to {@link bucketCount} − 1. */
export function bucketOf(key: string): number {
  return lineHash(key) % bucketCount;
}

/** Decodes what {@link TableDigest.sums} gave; a list of another length is refused. */
export const decodeSums: Decoder<readonly number[]> = (value, path) => {
  const number = decode.between(decode.integer, 0, modulus - 1);
  const sums = decode.list(number, { max: bucketCount })(value, path);
  if (sums.length !== bucketCount) throw decode.failure(path, `${bucketCount} sums`, value);
  return sums;
};

function lineHash(text: string): number {
  return createHash("sha256").update(text).digest().readUIntBE(0, 6);
}
