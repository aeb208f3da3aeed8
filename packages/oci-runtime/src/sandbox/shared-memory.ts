import { chownSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { mount, removeTree, unmount } from "@kip/base";

/** The same size as in containerd, whatever memory the machine has. */
const size = "65536k";

/** Path of a pod's shared memory. */
export function sharedMemoryDir(name: string): string {
  return `/dev/shm/kip-${name}`;
}

/**
 * Creates the `/dev/shm` that a pod's containers share: 64 MiB in memory, as in containerd. An existing one and its content
 * stay.
 *
 * @param owner user and group: root of the pod's user namespace, or 0
 * @throws {CommandError} `COMMAND_FAILED`
 */
export async function makeSharedMemory(name: string, owner: number): Promise<string> {
  const directory = sharedMemoryDir(name);
  mkdirSync(directory, { recursive: true });
  const options = `nosuid,nodev,noexec,mode=1777,size=${size}`;
  if (!isMount(directory)) await mount(["-t", "tmpfs", "-o", options, "shm", directory]);
  chownSync(directory, owner, owner);
  return directory;
}

/**
 * Removes the result of {@link makeSharedMemory}, or the plain directory of an earlier version. Does nothing if neither exists.
 */
export async function removeSharedMemory(directory: string): Promise<void> {
  if (isMount(directory)) await unmount(["-l", directory]);
  await removeTree(directory);
}

function isMount(directory: string): boolean {
  const own = statSync(directory, { throwIfNoEntry: false });
  return own !== undefined && own.dev !== statSync(path.dirname(directory)).dev;
}
