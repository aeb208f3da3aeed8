import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";

/** conmon's control pipe, where it takes lines of three numbers; undefined when conmon is gone. */
export async function openControl(file: string): Promise<FileHandle | undefined> {
  // Without O_NONBLOCK this would wait for a reader without end.
  const flags = constants.O_WRONLY | constants.O_NONBLOCK;
  return await open(file, flags).catch(() => undefined);
}

/** Has conmon go on to the next file of its log, as soon as it has time. */
export async function requestNextLog(file: string): Promise<void> {
  const control = await openControl(file);
  try {
    await control?.write("2 0 0\n");
  } finally {
    await control?.close();
  }
}
