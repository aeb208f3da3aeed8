import { spawn } from "node:child_process";
import { once } from "node:events";
import { CloudError } from "@kip/cloud";

/**
 * Runs `work` while this process alone, on the whole machine, holds the lock file.
 *
 * The lock is `flock(1)`'s: it ends with its holder, so a process killed with SIGKILL leaves nothing
 * to clean up. Waiting costs no polling: the kernel wakes the next in line.
 *
 * @param file lock file; made when it is missing, never removed
 * @throws {CloudError} `CLOUD_UNAVAILABLE` if the lock cannot be taken at all
 */
export async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const holder = spawn("flock", ["--exclusive", "--no-fork", file, "cat"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  // A holder that cannot write its last byte is gone already.
  holder.stdin.on("error", () => {});
  const failed = Promise.race([once(holder, "exit"), once(holder, "error")]);
  failed.catch(() => {});
  holder.stdin.write("locked");
  const locked = await Promise.race([
    once(holder.stdout, "data").then(() => true),
    failed.then(
      () => false,
      () => false,
    ),
  ]);
  if (!locked) {
    throw new CloudError("CLOUD_UNAVAILABLE", `Cannot lock "${file}": flock ended`, {
      remedy: "Install the package util-linux and check that the folder can be written",
    });
  }
  try {
    return await work();
  } finally {
    holder.stdin.end();
  }
}
