import fs from "node:fs/promises";
import { AgentError } from "@kip/agent-api";
import { errorText, runCommand, CommandError } from "@kip/base";
import type { Disk } from "./find-disk.ts";

/**
 * Space at a disk's end that our file systems leave free, bytes. While the file system is being created, it contains a mark,
 * which programs that create file systems do not touch.
 */
const tailBytes = 64 * 1024;
const headBytes = 2 ** 20;
const mark = Buffer.from("kip: the file system of this disk is being made\n");

/** The fields of an ext4 superblock. */
interface Superblock {
  readonly sizeBytes: number;
}

/**
 * Makes sure that the disk has a sound ext4 file system. Only creates one on an empty disk, or on one for which an earlier
 * attempt was killed. The disk must not be mounted.
 *
 * @throws {AgentError} `AGENT_DISK_REFUSED` if the disk contains something else, or is empty and read-only;
 * `AGENT_DISK_DAMAGED` if a person has to repair the file system
 */
export async function prepareFileSystem(
  disk: Disk,
  options: { readonly readOnly: boolean },
): Promise<void> {
  const content = await inspect(disk);
  switch (content) {
    case "ext4":
      if (!options.readOnly) await repair(disk);
      return;
    case "empty":
    case "half-made":
      if (options.readOnly)
        throw refused(disk, "it holds no file system yet, and is to be read only");
      return await make(disk);
    default:
      throw refused(disk, `it holds ${content.other}, which is not for this pod to replace`);
  }
}

/** Whether the disk is so much larger than its file system that growing is worthwhile. */
export async function canGrow(disk: Disk): Promise<boolean> {
  await using handle = await fs.open(disk.file, "r");
  const superblock = await readSuperblock(handle);
  return superblock !== undefined && superblock.sizeBytes + headBytes <= usable(disk);
}

/** Enlarges a mounted file system to the size of its disk. */
export async function grow(disk: Disk): Promise<void> {
  await runCommand("resize2fs", [disk.file, `${usable(disk) / 1024}K`]);
}

type Content = "ext4" | "empty" | "half-made" | { readonly other: string };

async function inspect(disk: Disk): Promise<Content> {
  const known = await probe(disk.file);
  await using handle = await fs.open(disk.file, "r");
  const superblock = await readSuperblock(handle);
  const tail = await read(handle, usable(disk), tailBytes);
  const isTailFree = superblock === undefined || superblock.sizeBytes <= usable(disk);
  if (isTailFree && tail.subarray(0, mark.length).equals(mark)) return "half-made";
  if (known !== undefined) return known === "ext4" ? "ext4" : { other: `"${known}"` };
  const head = await read(handle, 0, Math.min(headBytes, disk.sizeBytes));
  return isZero(head) && isZero(tail) ? "empty" : { other: "data of an unknown kind" };
}

/** The type of a file system or partition table according to blkid. Undefined if there is none. */
async function probe(file: string): Promise<string | undefined> {
  try {
    const { stdout } = await runCommand("blkid", ["-p", "-o", "export", file]);
    const values = new Map(stdout.split("\n").map((line) => cut(line, "=")));
    return values.get("TYPE") ?? values.get("PTTYPE") ?? "something";
  } catch (error) {
    const code = exitCode(error);
    if (code === 2) return undefined;
    if (code === 8) return "something that can be taken for several things";
    throw error;
  }
}

/** @see https://www.kernel.org/doc/html/latest/filesystems/ext4/globals.html#super-block */
async function readSuperblock(handle: fs.FileHandle): Promise<Superblock | undefined> {
  const block = await read(handle, 1024, 1024);
  if (block.length < 1024 || block.readUInt16LE(0x38) !== 0xef53) return undefined;
  const has64Bits = (block.readUInt32LE(0x60) & 0x80) !== 0;
  const blocks = block.readUInt32LE(0x4) + (has64Bits ? block.readUInt32LE(0x150) * 2 ** 32 : 0);
  return { sizeBytes: blocks * 2 ** (10 + block.readUInt32LE(0x18)) };
}

async function make(disk: Disk): Promise<void> {
  await write(disk, mark);
  // As in the kubelet, no blocks are reserved for root. Nothing is discarded, because nothing was written.
  const options = ["-q", "-F", "-m", "0", "-E", "nodiscard"];
  await runCommand("mkfs.ext4", [...options, disk.file, `${usable(disk) / 1024}k`]);
  await write(disk, Buffer.alloc(mark.length));
}

async function repair(disk: Disk): Promise<void> {
  try {
    await runCommand("e2fsck", ["-p", disk.file]);
  } catch (error) {
    const code = exitCode(error);
    // 1: repaired; 2: repaired so much that a root file system would need a reboot.
    if (code === undefined || (code & ~3) !== 0) throw damaged(disk, error);
  }
}

async function write(disk: Disk, data: Buffer): Promise<void> {
  await using handle = await fs.open(disk.file, "r+");
  await handle.write(data, 0, data.length, usable(disk));
  await handle.sync();
}

async function read(handle: fs.FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(Math.max(0, length));
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(
      buffer,
      filled,
      buffer.length - filled,
      position + filled,
    );
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

/** Bytes before the reserved end. */
function usable({ sizeBytes }: Disk): number {
  return Math.floor((sizeBytes - tailBytes) / 4096) * 4096;
}

function isZero(data: Buffer): boolean {
  return data.every((byte) => byte === 0);
}

function cut(line: string, separator: string): readonly [string, string] {
  const at = line.indexOf(separator);
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
}

function exitCode(error: unknown): number | undefined {
  return CommandError.is(error) ? error.exitCode : undefined;
}

function refused(disk: Disk, reason: string): AgentError {
  return new AgentError("AGENT_DISK_REFUSED", `Cannot use disk ${disk.file}: ${reason}`);
}

function damaged(disk: Disk, cause: unknown): AgentError {
  return new AgentError(
    "AGENT_DISK_DAMAGED",
    `Cannot use disk ${disk.file}: its file system could not be repaired: ${errorText(cause)}`,
    { cause, remedy: "Attach the disk to a machine and run e2fsck on it" },
  );
}
