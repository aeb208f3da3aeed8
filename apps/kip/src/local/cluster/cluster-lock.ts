import { createHash } from "node:crypto";
import { open, rm, stat } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock } from "@kip/base";

/**
 * Takes the lock of a state folder, which `kip up` and `kip down` hold while they work on it. Nothing of it is left once it has
 * been released, or the computer has been started again.
 *
 * @param runtimeDir folder that only root can write to
 */
export async function lockCluster(
  stateDir: string,
  { runtimeDir = "/run", onWait = () => {} } = {},
): Promise<AsyncDisposable> {
  const id = createHash("sha256").update(path.resolve(stateDir)).digest("hex").slice(0, 16);
  const file = path.join(runtimeDir, `kip-${id}.lock`);
  for (;;) {
    // Kept open so that its inode number is not used again.
    await using before = await open(file, "a", 0o600);
    const lock = await acquireFileLock(file, { onWait });
    const { ino } = await before.stat();
    // Its last holder may have removed it while we waited: then others lock another file of that name.
    if ((await stat(file).catch(() => undefined))?.ino === ino)
      return removedAfterwards(lock, file);
    await lock[Symbol.asyncDispose]();
  }
}

function removedAfterwards(lock: AsyncDisposable, file: string): AsyncDisposable {
  return {
    [Symbol.asyncDispose]: async () => {
      await rm(file, { force: true });
      await lock[Symbol.asyncDispose]();
    },
  };
}
