import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync } from "node:fs";
import { isSystemError } from "@kip/base";
import { at } from "../unpack/descriptor-path.ts";
import { FolderStack, type OpenFolder } from "../unpack/folder-stack.ts";

const maxLinks = 40;
/** `O_NONBLOCK`, because opening a FIFO would block. */
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Reads a file of a root file system as a program inside would. Links are resolved relative to that root and never lead out of
 * it. Undefined if the file does not exist, is not a regular file, or has more than `maxBytes`.
 */
export function readInRoot(rootfs: string, file: string, maxBytes: number): Buffer | undefined {
  using stack = new FolderStack(rootfs, { maxDepth: 256, keepsTimes: false });
  let parts = file.split("/").filter((part) => part !== "");
  for (let links = 0; links <= maxLinks; links++) {
    const name = parts.pop();
    const folder = name === undefined ? undefined : stack.find(parts);
    if (name === undefined || name === ".." || !folder) return undefined;
    const found = readOrLink(folder, name, maxBytes);
    if (typeof found !== "string") return found;
    const start = found.startsWith("/") ? "" : folder.path;
    parts = `${start}/${found}`.split("/").filter((part) => part !== "" && part !== ".");
  }
  return undefined;
}

/** The content, or the target of a link. */
function readOrLink(
  folder: OpenFolder,
  name: string,
  maxBytes: number,
): Buffer | string | undefined {
  const place = at(folder.fd, name);
  let fd: number;
  try {
    fd = openSync(place, readFlags);
  } catch (error) {
    if (isSystemError(error, "ENOENT", "ENXIO")) return undefined;
    if (isSystemError(error, "ELOOP")) return readlinkSync(place, { encoding: "latin1" });
    throw error;
  }
  try {
    const facts = fstatSync(fd);
    return facts.isFile() && facts.size <= maxBytes ? readFileSync(fd) : undefined;
  } finally {
    closeSync(fd);
  }
}
