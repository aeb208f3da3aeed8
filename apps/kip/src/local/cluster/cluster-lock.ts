import { createHash } from "node:crypto";
import { open, rm, stat } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock } from "@kip/base";

/**
 * Takes the lock of a state folder, which `kip up` and `kip down` hold while they work on it. Its file is removed on release,
 * and does not survive a reboot.
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
    // Keep the file open, so that its inode number is not used again.
    await using before = await open(file, "a", 0o600);
    const lock = await acquireFileLock(file, { onWait });
    const { ino } = await before.stat();
    // The previous holder may have removed the file while we waited. Others would then lock a new file of the same name.
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
