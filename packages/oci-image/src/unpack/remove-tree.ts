import { lstatSync, readdirSync, rmdirSync, unlinkSync } from "node:fs";
import { hasCode } from "@kip/base";
import { at, closeFolder, openChild, self } from "./descriptor-path.ts";

/** Removes a name and all below it; fine if it is not there. Follows no link. */
export function removeTree(folder: number, name: string): void {
  if (!isFolder(folder, name)) {
    try {
      unlinkSync(at(folder, name));
    } catch (error) {
      if (!hasCode(error, "ENOENT")) throw error;
    }
    return;
  }
  const child = openChild(folder, name);
  try {
    for (const inner of namesIn(child)) removeTree(child, inner);
  } finally {
    closeFolder(child);
  }
  rmdirSync(at(folder, name));
}

/** The names in an open folder, as byte strings. */
export function namesIn(folder: number): string[] {
  return readdirSync(self(folder), { encoding: "buffer" }).map((name) => name.toString("latin1"));
}

/** Whether a name is a folder; false for a link to one, and if it is not there. */
export function isFolder(folder: number, name: string): boolean {
  return lstatSync(at(folder, name), { throwIfNoEntry: false })?.isDirectory() ?? false;
}
