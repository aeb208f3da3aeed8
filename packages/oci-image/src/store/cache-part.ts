import path from "node:path";
import { isSystemError, makeFolderSync } from "@kip/base";
import { closeFolder, openChild, openFolder, self } from "../unpack/descriptor-path.ts";

/** The folder above the private parts of a shared cache. */
export const privateFolder = "private";

/** Folders from a part of a shared cache down to its blobs. */
export const blobSteps: readonly string[] = ["blobs", "sha256"];

/**
 * Opens a folder of a shared cache step by step.
 *
 * @param missing what to do with a step that is not there
 * @throws `ENOTDIR` if a step is a link, which another who shares the folder may have put there; `ENOENT`
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
    // Who else may pass is for the administrator to say; a folder that is there keeps its mode.
    makeFolderSync(path.join(self(above), step), step === privateFolder ? 0o700 : 0o755);
  } catch (error) {
    // Another filler was first.
    if (!isSystemError(error, "EEXIST")) throw error;
  }
  return openChild(above, step);
}
