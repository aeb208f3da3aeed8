import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { isSystemError } from "@kip/base";

/**
 * Whether an overlay uses a tree, in any mount namespace that this process can see. The mount's options contain the folder's
 * name, and keep it when the folder is renamed.
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
      // The process has ended or is not accessible.
      if (!isSystemError(error, "ENOENT", "ESRCH", "EACCES", "EPERM", "EINVAL")) throw error;
    }
  }
  return false;
}
