import { readFile } from "node:fs/promises";
import { isSystemError } from "../coded-error.ts";
import type { Decoder } from "../decode.ts";
import { DecodeError } from "../errors.ts";

/**
 * Reads a JSON file that this project wrote. Undefined if there is none, or if it is unreadable: its writer may have been
 * killed while writing, or may have been another version.
 *
 * @throws the system's error if the file exists and cannot be read
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
