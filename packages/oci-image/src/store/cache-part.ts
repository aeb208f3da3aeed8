import path from "node:path";
import { isSystemError, makeFolderSync } from "@kip/base";
import { closeFolder, openChild, openFolder, self } from "../unpack/descriptor-path.ts";

/** Parent folder of the private parts of a shared cache. */
export const privateFolder = "private";

/** Folders from a part of a shared cache to its blobs. */
export const blobSteps: readonly string[] = ["blobs", "sha256"];

/**
 * Opens a folder of a shared cache, one path component at a time.
 *
 * @param missing what to do with a missing component
 * @throws `ENOTDIR` if a component is a link, which another user of the folder may have created; `ENOENT`
 */
export function openPart(
  root: string,
  steps: readonly string[],
  missing: "make" | "fail" = "fail",
): number {
  let folder = openFolder(root);
  for (const step of steps) {
    const above = folder;
    try {
      folder = missing === "make" ? openOrMake(above, step) : openChild(above, step);
    } finally {
      closeFolder(above);
    }
  }
  return folder;
}

function openOrMake(above: number, step: string): number {
  try {
    return openChild(above, step);
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
  try {
    // The administrator decides who else may enter. An existing folder keeps its mode.
    makeFolderSync(path.join(self(above), step), step === privateFolder ? 0o700 : 0o755);
  } catch (error) {
    // Another process has created it first.
    if (!isSystemError(error, "EEXIST")) throw error;
  }
  return openChild(above, step);
}
