import { createHash } from "node:crypto";

/**
 * A number from 0 to 1 made from a text's hash: the same for equal texts, and spread evenly over different ones. Pods use it, by
 * their UID, to wait for different times.
 */
export function shareOf(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
