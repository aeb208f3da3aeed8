import { open } from "node:fs/promises";
import { textBefore } from "@kip/base";

/** The first `maxBytes` of a file as text; empty if it cannot be read. */
export async function readStart(file: string, maxBytes: number): Promise<string> {
  return await readPart(file, maxBytes, () => 0);
}

/** The last `maxBytes` of a file as text; empty if it cannot be read. */
export async function readTail(file: string, maxBytes: number): Promise<string> {
  return await readPart(file, maxBytes, (size, length) => size - length);
}

/** The first line of a program's output. Empty if there is none. */
export function firstLine(text: unknown): string {
  return typeof text === "string" ? textBefore(text.trim(), "\n") : "";
}

async function readPart(
  file: string,
  maxBytes: number,
  startOf: (size: number, length: number) => number,
): Promise<string> {
  const handle = await open(file, "r").catch(() => undefined);
  if (!handle) return "";
  try {
    const { size } = await handle.stat();
    const length = Math.min(size, Math.max(0, maxBytes));
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await handle.read(buffer, 0, length, startOf(size, length));
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}
