import { createHash } from "node:crypto";

/**
 * A number from 0 to 1 from a text's hash: the same for equal texts, and evenly distributed over different ones. Pods use it
 * with their UIDs to wait for different times.
 */
export function shareOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
