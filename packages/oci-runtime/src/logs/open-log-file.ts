import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { createGunzip } from "node:zlib";
import { isSystemError } from "@kip/base";
import { RuntimeError } from "../errors.ts";
import type { LogFile } from "./log-files.ts";

/** A log file that is open for reading from its beginning to its end. */
export interface OpenLogFile extends AsyncDisposable {
  readonly number: number;
  readonly path: string;
  readonly inode: number;
  /** Whether it is compressed, and therefore complete. */
  readonly isCompressed: boolean;
  /** Returns the next bytes. Empty at the end. */
  read(): Promise<Buffer>;
  /** Skips this many bytes. */
  skip(bytes: number): Promise<void>;
  /** Makes the next read start with these bytes, which are the end of the last result. */
  unread(data: Buffer): void;
  /** The file, for use if it is not compressed. */
  readonly handle: FileHandle;
}

type Reader = Pick<OpenLogFile, "read" | "skip" | "unread">;

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const blockBytes = 65_536;

/**
 * Opens a log file.
 *
 * @throws {RuntimeError} `LOG_NOT_FOUND`
 */
export async function openLogFile(file: LogFile): Promise<OpenLogFile> {
  const handle = await openFile(file.path);
  const { ino: inode } = await handle.stat();
  const common = {
    ...file,
    inode,
    handle,
    [Symbol.asyncDispose]: async () => await handle.close(),
  };
  return file.isCompressed
    ? { ...common, ...compressedReader(handle) }
    : { ...common, ...plainReader(handle) };
}

/** Size of a file's content, bytes. For a compressed file, it is stored at the end (RFC 1952). */
export async function contentBytes({ handle, isCompressed }: OpenLogFile): Promise<number> {
  const { size } = await handle.stat();
  if (!isCompressed) return size;
  const end = Buffer.alloc(4);
  await handle.read(end, 0, 4, Math.max(0, size - 4));
  return end.readUInt32LE();
}

async function openFile(file: string): Promise<FileHandle> {
  try {
    // A container with access to this directory may have replaced the file with a link, a pipe or a device.
    const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    throw new RuntimeError("LOG_NOT_FOUND", `Cannot read log "${file}": it is not a file`);
  } catch (error) {
    if (!isSystemError(error, "ENOENT", "ELOOP", "ENXIO")) throw error;
    throw logNotFound(file, error);
  }
}

export function logNotFound(place: string, cause?: unknown): RuntimeError {
  return new RuntimeError("LOG_NOT_FOUND", `Cannot read log "${place}": it does not exist`, {
    cause,
    remedy: "The container has not been created yet, or its log is removed.",
  });
}

function plainReader(handle: FileHandle): Reader {
  let offset = 0;
  return {
    read: async () => {
      const block = Buffer.allocUnsafe(blockBytes);
      const { bytesRead } = await handle.read(block, 0, blockBytes, offset);
      offset += bytesRead;
      return block.subarray(0, bytesRead);
    },
    skip: async (bytes) => void (offset += bytes),
    unread: (data) => void (offset -= data.length),
  };
}

function compressedReader(handle: FileHandle): Reader {
  const source = handle.createReadStream({ autoClose: false, start: 0 });
  const content = source.pipe(createGunzip());
  source.on("error", (error) => content.destroy(error));
  const blocks = content[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest: Buffer | undefined;
  const read = async (): Promise<Buffer> => {
    const block = rest ?? (await blocks.next()).value ?? Buffer.alloc(0);
    rest = undefined;
    return block;
  };
  const skip = async (bytes: number): Promise<void> => {
    for (let left = bytes; left > 0;) {
      const block = await read();
      if (block.length === 0) return;
      if (block.length > left) rest = block.subarray(left);
      left -= block.length;
    }
  };
  // An empty buffer would look like the end.
  const unread = (data: Buffer): void => void (rest = data.length > 0 ? data : undefined);
  return { read, skip, unread };
}
