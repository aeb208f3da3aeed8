import { constants } from "node:fs";
import { open, unlink } from "node:fs/promises";
import path from "node:path";

/**
 * Lets a created container's process begin by what `crun start` does: open `exec.fifo` in crun's state
 * of the container, unlink it (which is how crun knows a started container) and write a byte. Saves
 * the start of a program, a fifth of the whole way of a container from creation to running.
 *
 * @returns false, with nothing changed, where crun's state looks otherwise: then `crun start` has to do it
 */
export async function releaseContainer(crunRoot: string, id: string): Promise<boolean> {
  const fifo = path.join(crunRoot, id, "exec.fifo");
  // Without O_NONBLOCK this would wait for ever for a process that has died.
  const handle = await open(fifo, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined);
  if (!handle) return false;
  await using pipe = handle;
  if (!(await pipe.stat()).isFIFO()) return false;
  await unlink(fifo);
  await pipe.write("\0");
  return true;
}
