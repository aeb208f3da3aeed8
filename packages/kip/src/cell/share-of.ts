import { createHash } from "node:crypto";

/** A number from 0 to 1 that is always the same for a text, and spread evenly over texts. */
export function shareOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
