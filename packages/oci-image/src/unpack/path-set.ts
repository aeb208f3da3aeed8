import { randomInt } from "node:crypto";

/** Of a table that holds nothing yet; a power of two. */
const firstSlots = 256;
/** Words of a slot. */
const slotWords = 2;

/**
 * A set of paths that takes 12 to 24 bytes for each, and 36 while it grows, whatever their length: only a hash of 63 bits is
 * kept of each.
 *
 * Two paths with the same hash count as one: of images with 4,000,000 paths, about one in a million has such a pair. The
 * hash begins with random numbers, so that no image can be made to have one.
 */
export class PathSet {
  readonly #seeds = [randomInt(2 ** 32), randomInt(2 ** 32)] as const;
  readonly #hash = new Uint32Array(slotWords);
  #slots = new Uint32Array(firstSlots * slotWords);
  #size = 0;
  readonly #mayGrow: (bytes: number) => void;

  /** @param mayGrow called before the set takes so many bytes; throws if that is too much */
  constructor(mayGrow: (bytes: number) => void) {
    this.#mayGrow = mayGrow;
  }

  /** @returns false if it was there before */
  add(path: string): boolean {
    const slot = this.#find(path);
    if (this.#isTaken(slot)) return false;
    this.#slots.set(this.#hash, slot);
    this.#size++;
    // Two slots of three at most are taken: more would make each look take several steps.
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

  /** Where a path is, or belongs; its hash is in `#hash`. */
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
    // Zeros mean that a slot is empty.
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
    // Both are there for a moment.
    this.#mayGrow(before.byteLength * 3);
    this.#slots = new Uint32Array(before.length * 2);
    for (let slot = 0; slot < before.length; slot += slotWords) {
      if (before[slot + 1] === 0) continue;
      this.#hash.set(before.subarray(slot, slot + slotWords));
      this.#slots.set(this.#hash, this.#place());
    }
  }
}

/** Lets each bit of a number change about half of the others. */
function mixed(number: number): number {
  let bits = number;
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b_3c6d);
  bits = Math.imul(bits ^ (bits >>> 12), 0x297a_2d39);
  return bits ^ (bits >>> 15);
}
