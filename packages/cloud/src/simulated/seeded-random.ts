/** Returns numbers from 0 up to, but not including, 1. The same seed gives the same sequence. */
export type Random = () => number;

/**
 * A small generator for simulations, not for secrets. It passes a counter through a 32-bit mixing function.
 *
 * @param seed integer
 */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e37_79b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0_aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** `length` hexadecimal digits. */
export function randomHex(random: Random, length: number): string {
  return Array.from({ length }, () => Math.floor(random() * 16).toString(16)).join("");
}
