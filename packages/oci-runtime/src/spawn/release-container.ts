import { closeSync, constants, fstatSync, openSync, unlinkSync, writeSync } from "node:fs";
import path from "node:path";

/**
 * Starts a created container's process in the same way as `crun start`: opens `exec.fifo` in crun's state of the container,
 * unlinks it (which marks the container as started) and writes a byte. Without the start of a program, a container takes a
 * fifth less time from creation to running.
 *
 * @returns false, without any change, if crun's state looks different. The caller then has to use `crun start`
 */
export function releaseContainer(crunRoot: string, id: string): boolean {
  const fifo = path.join(crunRoot, id, "exec.fifo");
  let fd: number;
  try {
    // Without O_NONBLOCK this would wait indefinitely for a process that has died.
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
