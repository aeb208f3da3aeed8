import { randomInt } from "node:crypto";

/** Initial size of the table, a power of two. */
const firstSlots = 256;
/** Number of words per slot. */
const slotWords = 2;

/**
 * A set of paths. Each path takes 12 to 24 bytes, and 36 while the set grows, whatever its length, because only a 63-bit hash
 * is stored.
 *
 * Two paths with the same hash count as one. About one in a million images with 4,000,000 paths contains such a pair. The hash
 * is seeded with random numbers, so no image can be crafted to contain one.
 */
export class PathSet {
  readonly #seeds = [randomInt(2 ** 32), randomInt(2 ** 32)] as const;
  readonly #hash = new Uint32Array(slotWords);
  #slots = new Uint32Array(firstSlots * slotWords);
  #size = 0;
  readonly #mayGrow: (bytes: number) => void;

  /** @param mayGrow called with the number of bytes before the set grows. Throws if that is too much */
  constructor(mayGrow: (bytes: number) => void) {
    this.#mayGrow = mayGrow;
  }

  /** @returns false if the path was already in the set */
  add(path: string): boolean {
    const slot = this.#find(path);
    if (this.#isTaken(slot)) return false;
    this.#slots.set(this.#hash, slot);
    this.#size++;
    // At most two thirds of the slots are used. With more, each lookup would take several steps.
    if (this.#size * 3 > (this.#slots.length / slotWords) * 2) this.#grow();
    return true;
  }

  has(path: string): boolean {
    return this.#isTaken(this.#find(path));
  }

  clear(): void {
    if (this.#size === 0) return;
    this.#slots = new Uint32Array(firstSlots * slotWords);
    this.#size = 0;
  }

  /** The slot of a path, or the one where it belongs. Its hash is in `#hash`. */
  #find(path: string): number {
    const [first, second] = this.#seeds;
    let one = first;
    let other = second;
    for (let index = 0; index < path.length; index++) {
      const byte = path.charCodeAt(index);
      one = Math.imul(one ^ byte, 0x9e37_79b1);
      other = Math.imul(other ^ byte, 0x85eb_ca77) ^ (other >>> 15);
    }
    this.#hash[0] = mixed(one ^ (other >>> 16));
    // Zeros mark an empty slot.
    this.#hash[1] = mixed(other ^ (one >>> 16)) | 1;
    return this.#place();
  }

  /** The slot of the hash in `#hash`, or the one where it belongs. */
  #place(): number {
    const [one = 0, other = 0] = this.#hash;
    const mask = this.#slots.length - slotWords;
    let slot = (one * slotWords) & mask;
    while (this.#isTaken(slot) && (this.#slots[slot] !== one || this.#slots[slot + 1] !== other)) {
      slot = (slot + slotWords) & mask;
    }
    return slot;
  }

  #isTaken(slot: number): boolean {
    return this.#slots[slot + 1] !== 0;
  }

  #grow(): void {
    const before = this.#slots;
    // The old and the new table exist at the same time.
    this.#mayGrow(before.byteLength * 3);
    this.#slots = new Uint32Array(before.length * 2);
    for (let slot = 0; slot < before.length; slot += slotWords) {
      if (before[slot + 1] === 0) continue;
      this.#hash.set(before.subarray(slot, slot + slotWords));
      this.#slots.set(this.#hash, this.#place());
    }
  }
}

/** Mixes a number: each changed bit changes about half of the others. */
function mixed(number: number): number {
  let bits = number;
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b_3c6d);
  bits = Math.imul(bits ^ (bits >>> 12), 0x297a_2d39);
  return bits ^ (bits >>> 15);
}
