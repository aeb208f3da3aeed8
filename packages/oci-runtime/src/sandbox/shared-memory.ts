import { chownSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import { mount, removeTree, unmount } from "@kip/base";

/** As much as containerd gives a pod, whatever its machine has. */
const size = "65536k";

/** Where a pod's shared memory is. */
export function sharedMemoryDir(name: string): string {
  return `/dev/shm/kip-${name}`;
}

/**
 * Makes the `/dev/shm` that a pod's containers share: 64 MiB in memory, as with containerd. One that is there stays, with what
 * is in it.
 *
 * @param owner user and group that it belongs to: root of the pod's own users, or 0
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

/** Removes what {@link makeSharedMemory} has made, or the plain directory of an earlier version. Does nothing if there is none. */
export async function removeSharedMemory(directory: string): Promise<void> {
  if (isMount(directory)) await unmount(["-l", directory]);
  await removeTree(directory);
}

function isMount(directory: string): boolean {
  const own = statSync(directory, { throwIfNoEntry: false });
  return own !== undefined && own.dev !== statSync(path.dirname(directory)).dev;
}
