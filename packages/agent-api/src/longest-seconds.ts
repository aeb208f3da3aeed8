/** 68 years. */
const longest = 2 ** 31 - 1;

/** A period that an agent understands, seconds: the API takes any int64 for one, of which JavaScript has not all. */
export function limitSeconds(seconds: number): number {
  return Math.min(seconds, longest);
}
