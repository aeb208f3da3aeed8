import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { isSystemError } from "@kip/base";

/**
 * Whether an overlay stands on a tree, in whatever mount namespace we may see: its options name the folder, and go on
 * naming it when it is renamed.
 *
 * @param hex digits of the tree's ID
 */
export function isMountedTree(hex: string): boolean {
  const seen = new Set<string>();
  for (const id of ["self", ...readdirSync("/proc").filter((name) => /^\d+$/.test(name))]) {
    try {
      const namespace = readlinkSync(`/proc/${id}/ns/mnt`);
      if (seen.has(namespace)) continue;
      seen.add(namespace);
      if (readFileSync(`/proc/${id}/mountinfo`, "latin1").includes(hex)) return true;
    } catch (error) {
      // A process that has ended, or is none of our business.
      if (!isSystemError(error, "ENOENT", "ESRCH", "EACCES", "EPERM", "EINVAL")) throw error;
    }
  }
  return false;
}
