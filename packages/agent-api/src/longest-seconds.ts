/** 68 years. */
const longest = 2 ** 31 - 1;

/** Limits a period to what an agent supports, seconds. The API allows any int64, not all of which JavaScript can represent. */
export function limitSeconds(seconds: number): number {
  return Math.min(seconds, longest);
}
