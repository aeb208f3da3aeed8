import { open } from "node:fs/promises";

/** What a program of ours said last before it ended. */
export interface LastWords {
  readonly message: string;
  readonly remedy: string | undefined;
}

const tailBytes = 16 * 1024;

/**
 * The failure at the end of a log file, in the form of `printFailure`: `kip: ` and the reason, and a
 * second line with what to do. Without one, the last line; undefined if there is nothing after `since`.
 *
 * @param since size of the file when the program was started first, bytes
 */
export async function lastWords(file: string, since: number): Promise<LastWords | undefined> {
  await using handle = await open(file);
  const { size } = await handle.stat();
  const start = Math.max(since, size - tailBytes);
  const { buffer, bytesRead } = await handle.read({
    buffer: Buffer.alloc(Math.max(0, size - start)),
    position: start,
  });
  const lines = buffer.subarray(0, bytesRead).toString().split("\n");
  const index = lines.findLastIndex((line) => line.startsWith("kip: "));
  if (index >= 0) {
    const remedy = /^ {5}(\S.*)$/.exec(lines[index + 1] ?? "")?.[1];
    return { message: lines[index]?.slice("kip: ".length) ?? "", remedy };
  }
  const message = lines.findLast((line) => line.trim() !== "");
  return message === undefined ? undefined : { message, remedy: undefined };
}
