import { readFile, realpath, rename, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/**
 * Which state folder a network belongs to: a file beside the namespace. Two local clouds with one namespace would take
 * each other's devices and addresses, and removing one would remove both.
 */
export interface NetworkClaim {
  /**
   * The state folder that has the network, if it is another one.
   *
   * @returns its path; undefined if the network is this state folder's, or has not been claimed
   */
  otherHolder(): Promise<string | undefined>;
  /** Whether a folder that {@link NetworkClaim.otherHolder} gave still exists. */
  isInUse(holder: string): Promise<boolean>;
  /** Writes the claim. Callers hold the lock on all networks of this computer. */
  take(): Promise<void>;
}

/**
 * The claim on a network.
 *
 * @param folder of the network, below /run/kip
 */
export function networkClaim(folder: string, stateDir: string): NetworkClaim {
  const file = path.join(folder, "state-folder");
  // One folder may have several paths.
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

/** Empty if nothing has claimed it, as with networks of earlier versions. */
async function readHolder(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return "";
    throw error;
  }
}
