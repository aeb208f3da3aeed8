import { readdir } from "node:fs/promises";
import { isSystemError } from "../coded-error.ts";

/** The names in a folder, in no particular order. Empty if the folder does not exist. @throws other system errors */
export async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return [];
    throw error;
  }
}
