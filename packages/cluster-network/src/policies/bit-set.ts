/** A set of small non-negative integers. */
export class BitSet {
  #bits = new Uint8Array(8);

  has(number: number): boolean {
    return ((this.#bits[number >> 3] ?? 0) & (1 << (number & 7))) !== 0;
  }

  add(number: number): void {
    const index = number >> 3;
    if (index >= this.#bits.length) {
      const larger = new Uint8Array(2 * index);
      larger.set(this.#bits);
      this.#bits = larger;
    }
    this.#bits[index] = (this.#bits[index] ?? 0) | (1 << (number & 7));
  }

  /** All numbers of the set, in ascending order. */
  *values(): Generator<number> {
    for (const [index, bits] of this.#bits.entries())
      for (let left = bits, bit = 0; left !== 0; left >>= 1, bit++)
        if ((left & 1) !== 0) yield 8 * index + bit;
  }

  delete(number: number): void {
    const index = number >> 3;
    if (index < this.#bits.length)
      this.#bits[index] = (this.#bits[index] ?? 0) & ~(1 << (number & 7));
  }
}

/** Assigns small numbers to names. The number of a released name is reused. */
export class Numbering {
  readonly #numbers = new Map<string, number>();
  readonly #names: string[] = [];
  readonly #free: number[] = [];

  /** The number of a name. Assigns one if it has none. */
  of(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#names.length;
    this.#numbers.set(name, number);
    this.#names[number] = name;
    return number;
  }

  /** The name that has a number. */
  nameOf(number: number): string | undefined {
    return this.#names[number];
  }

  release(name: string): void {
    const number = this.#numbers.get(name);
    if (number === undefined) return;
    this.#numbers.delete(name);
    this.#names[number] = "";
    this.#free.push(number);
  }
}
