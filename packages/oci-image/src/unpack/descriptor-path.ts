import { closeSync, constants, openSync } from "node:fs";

/** O_PATH of Linux, which Node does not name: a handle on a place, whatever its permissions. */
const O_PATH = 0o10000000;

/** A name inside an open folder. No link on the way can be followed: there is no way, only a step. */
export function at(folder: number, name: string): string | Buffer {
  return toPath(`/proc/self/fd/${folder}/${name}`);
}

/** An open folder itself. */
export function self(folder: number): string {
  return `/proc/self/fd/${folder}`;
}

/** A byte string as the file-system functions take it. Their texts are UTF-8, so only ASCII may stay one. */
export function toPath(bytes: string): string | Buffer {
  // eslint-disable-next-line no-control-regex
  return /^[\0-\x7f]*$/.test(bytes) ? bytes : Buffer.from(bytes, "latin1");
}

/**
 * Seconds since 1970 as the file-system functions take them. A number below 0 means "now" to them, a date does not.
 */
export function toTime(seconds: number): number | Date {
  return seconds < 0 ? new Date(Math.max(seconds * 1000, earliestMs)) : seconds;
}

/** Of a `Date`. */
const earliestMs = -8.64e15;

/** Opens a folder as a starting point. The path is our own and may hold links. */
export function openFolder(path: string): number {
  return openSync(path, O_PATH | constants.O_DIRECTORY);
}

/** One step down. @throws `ENOTDIR` if the name is a link or anything else but a folder */
export function openChild(folder: number, name: string): number {
  return openSync(at(folder, name), O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

/** A second handle on an open folder, to outlive the first. */
export function reopenFolder(folder: number): number {
  return openSync(self(folder), O_PATH | constants.O_DIRECTORY);
}

/** Closes a handle of the functions above. */
export function closeFolder(folder: number): void {
  closeSync(folder);
}
