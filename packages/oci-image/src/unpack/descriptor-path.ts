import { closeSync, constants, openSync } from "node:fs";

/** O_PATH of Linux, which Node does not define. It opens a path whatever its permissions. */
const O_PATH = 0o10000000;

/** A name inside an open folder. This is a single path component, so no link before it can be followed. */
export function at(folder: number, name: string): string | Buffer {
  return toPath(`/proc/self/fd/${folder}/${name}`);
}

/** The open folder itself. */
export function self(folder: number): string {
  return `/proc/self/fd/${folder}`;
}

/** A byte string for Node's file system functions. They encode strings as UTF-8, so only ASCII can stay a string. */
export function toPath(bytes: string): string | Buffer {
  // eslint-disable-next-line no-control-regex
  return /^[\0-\x7f]*$/.test(bytes) ? bytes : Buffer.from(bytes, "latin1");
}

/** Seconds since 1970 for Node's file system functions. For them a negative number means "now", but a date does not. */
export function toTime(seconds: number): number | Date {
  return seconds < 0 ? new Date(Math.max(seconds * 1000, earliestMs)) : seconds;
}

/** The earliest time of a `Date`. */
const earliestMs = -8.64e15;

/** Opens a folder as a starting point. The path is trusted and may contain links. */
export function openFolder(path: string): number {
  return openSync(path, O_PATH | constants.O_DIRECTORY);
}

/** Opens a folder inside another. @throws `ENOTDIR` if the name is a link or anything else but a folder */
export function openChild(folder: number, name: string): number {
  return openSync(at(folder, name), O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

/** Opens a second handle for an open folder, which may outlive the first. */
export function reopenFolder(folder: number): number {
  return openSync(self(folder), O_PATH | constants.O_DIRECTORY);
}

/** Closes a handle from the functions above. */
export function closeFolder(folder: number): void {
  closeSync(folder);
}
