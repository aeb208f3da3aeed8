import fs from "node:fs";
import { isSystemError } from "@kip/base";

/** Reads a JSON file. Undefined if it does not exist. */
export function readJson(file: string): unknown {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Writes a JSON file atomically, with mode 0600. */
export function writeJson(file: string, value: unknown): void {
  const temporary = `${file}.new`;
  fs.writeFileSync(temporary, JSON.stringify(value), { mode: 0o600 });
  fs.renameSync(temporary, file);
}
