import { createCipheriv } from "node:crypto";

/** The same numbers in every run (the linear congruential generator of Knuth's MMIX, upper half). */
export class Sequence {
  #state: bigint;

  constructor(seed: number) {
    this.#state = BigInt(seed);
    this.below(1);
  }

  /** An integer from 0 to `limit` - 1. */
  below(limit: number): number {
    this.#state = BigInt.asUintN(64, this.#state * 6364136223846793005n + 1442695040888963407n);
    return Number((this.#state >> 32n) % BigInt(limit));
  }
}

const poolBytes = 16 * 1024 * 1024;
let pools: readonly Buffer[] | undefined;

/**
 * Content like that of real images: some does not compress (archives, pictures), some is text, and some is records that differ
 * little, like tables and machine code. gzip shrinks it to less than half.
 */
export function content(sequence: Sequence, length: number): Buffer {
  pools ??= [noise(), text(), records()];
  // Every eighth piece does not compress.
  const pool = pools[(sequence.below(8) + 3) >> 2] ?? Buffer.alloc(0);
  const start = sequence.below(pool.length - length);
  return pool.subarray(start, start + length);
}

function noise(): Buffer {
  const cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16, 1), Buffer.alloc(16, 2));
  return cipher.update(Buffer.alloc(poolBytes));
}

function text(): Buffer {
  const sequence = new Sequence(3);
  const words = Array.from({ length: 1500 }, () => {
    const letters = Array.from({ length: 3 + sequence.below(8) }, () => 97 + sequence.below(26));
    return String.fromCharCode(...letters);
  });
  const pool = Buffer.alloc(poolBytes);
  for (let at = 0; at < poolBytes;) {
    // Few words are frequent, and many are rare.
    const word = words[sequence.below(1 + sequence.below(1 + sequence.below(words.length)))] ?? "";
    at += pool.write(`${word}${sequence.below(12) === 0 ? "\n" : " "}`, at);
  }
  return pool;
}

function records(): Buffer {
  const sequence = new Sequence(4);
  const pool = Buffer.alloc(poolBytes);
  for (let at = 0; at < poolBytes; at += 16) {
    pool.writeUInt32LE(at, at);
    pool.writeUInt32LE(0x0040_0000 + sequence.below(4096) * 4, at + 4);
    pool.writeUInt16LE(sequence.below(64), at + 8);
    pool.writeUInt16LE(sequence.below(256), at + 12);
  }
  return pool;
}
