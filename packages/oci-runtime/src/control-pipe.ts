import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";

/** Opens conmon's control pipe, which accepts lines of three numbers. Undefined if conmon is gone. */
export async function openControl(file: string): Promise<FileHandle | undefined> {
  // Without O_NONBLOCK this could wait for a reader indefinitely.
  const flags = constants.O_WRONLY | constants.O_NONBLOCK;
  return await open(file, flags).catch(() => undefined);
}

/** Makes conmon switch to the next log file as soon as it can. */
export async function requestNextLog(file: string): Promise<void> {
  const control = await openControl(file);
  try {
    await control?.write("2 0 0\n");
  } finally {
    await control?.close();
  }
}
