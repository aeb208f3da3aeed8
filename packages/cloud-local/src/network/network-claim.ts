import { readFile, realpath, rename, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/**
 * Records which state folder owns a network, in a file beside the namespace. Two local clouds with the same namespace would use
 * the same devices and addresses, and removing one would remove both.
 */
export interface NetworkClaim {
  /**
   * The state folder that owns the network, if it is another one.
   *
   * @returns its path; undefined if this state folder owns the network, or none does
   */
  otherHolder(): Promise<string | undefined>;
  /** Whether a folder from {@link NetworkClaim.otherHolder} still exists. */
  isInUse(holder: string): Promise<boolean>;
  /** Records this state folder as owner. Callers hold the lock for all networks of this computer. */
  take(): Promise<void>;
}

/**
 * The record of a network's owner.
 *
 * @param folder the network's folder, below /run/kip
 */
export function networkClaim(folder: string, stateDir: string): NetworkClaim {
  const file = path.join(folder, "state-folder");
  // A folder may have several paths.
  const own = async (): Promise<string> => await realpath(stateDir).catch(() => stateDir);
  return {
    otherHolder: async () => {
      const holder = await readHolder(file);
      return holder === "" || holder === (await own()) ? undefined : holder;
    },
    isInUse: async (holder) =>
      await stat(holder).then(
        () => true,
        (error: unknown) => !isSystemError(error, "ENOENT", "ENOTDIR"),
      ),
    take: async () => {
      await writeFile(`${file}.new`, await own(), { mode: 0o600 });
      await rename(`${file}.new`, file);
    },
  };
}

/** Empty if there is no record, as for networks of earlier versions. */
async function readHolder(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return "";
    throw error;
  }
}
