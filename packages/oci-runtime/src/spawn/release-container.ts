import { closeSync, constants, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";
import path from "node:path";

/**
 * Lets a created container's process begin by what `crun start` does: open `exec.fifo` in crun's state
 * of the container, unlink it (which is how crun knows a started container) and write a byte. Saves
 * the start of a program, a fifth of the whole way of a container from creation to running.
 *
 * @returns false, with nothing changed, where crun's state looks otherwise: then `crun start` has to do it
 */
export function releaseContainer(crunRoot: string, id: string): boolean {
  const fifo = path.join(crunRoot, id, "exec.fifo");
  let fd: number;
  try {
    // Without O_NONBLOCK this would wait without end for a process that has died.
    fd = openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    return false;
  }
  try {
    if (!fstatSync(fd).isFIFO()) return false;
    unlinkSync(fifo);
    writeSync(fd, "\0");
    return true;
  } finally {
    closeSync(fd);
  }
}
