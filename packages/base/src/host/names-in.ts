import { readdir } from "node:fs/promises";
import { isSystemError } from "../coded-error.ts";

/** The names in a folder, in no particular order; none if it is not there. @throws the system's other errors */
export async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return [];
    throw error;
  }
}
