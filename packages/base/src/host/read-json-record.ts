import { readFile } from "node:fs/promises";
import { isSystemError } from "../coded-error.ts";
import type { Decoder } from "../decode.ts";
import { DecodeError } from "../errors.ts";

/**
 * Reads a JSON file that this project wrote; undefined if there is none, or none that this version can read: it was cut off
 * when its writer was killed, or another version wrote it.
 *
 * @throws the system's error if the file is there and cannot be read
 */
export async function readJsonRecord<T>(file: string, decoder: Decoder<T>): Promise<T | undefined> {
  try {
    return decoder(JSON.parse(await readFile(file, "utf8")), file);
  } catch (error) {
    const isUnreadable = DecodeError.is(error) || error instanceof SyntaxError;
    if (isUnreadable || isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}
