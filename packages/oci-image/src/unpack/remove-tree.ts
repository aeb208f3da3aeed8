import { randomUUID } from "node:crypto";
import { lstatSync, readdirSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { rm } from "node:fs/promises";
import { isSystemError } from "@kip/base";
import { at, closeFolder, openChild, openFolder, self } from "./descriptor-path.ts";

/** Removes a name and everything below it. Does nothing if it does not exist. Does not follow links. */
export function removeTree(folder: number, name: string): void {
  const steps = removalSteps(folder, name);
  while (steps.next().done !== true);
}

/** The same in steps, one for each file or folder, so that other work can get its turn in between. */
export function* removalSteps(folder: number, name: string): Generator<void, void, void> {
  if (!isFolder(folder, name)) {
    try {
      unlinkSync(at(folder, name));
    } catch (error) {
      if (!isSystemError(error, "ENOENT")) throw error;
    }
    yield;
    return;
  }
  const child = openChild(folder, name);
  try {
    for (const inner of namesIn(child)) yield* removalSteps(child, inner);
  } finally {
    closeFolder(child);
  }
  rmdirSync(at(folder, name));
  yield;
}

/**
 * Removes a trusted folder and everything below it. Does nothing if it does not exist. Images and containers may create paths
 * that are too long for the kernel.
 */
export async function removeFolder(place: string): Promise<void> {
  try {
    await rm(place, { recursive: true, force: true });
  } catch (error) {
    if (!isSystemError(error, "ENAMETOOLONG")) throw error;
    emptyDeep(place);
    rmdirSync(place);
  }
}

/** Moves each folder into the top folder before emptying it, so that none is deep. */
function emptyDeep(place: string): void {
  const top = openFolder(place);
  const prefix = randomUUID();
  let moved = 0;
  try {
    for (let names = namesIn(top); names.length > 0; names = namesIn(top)) {
      for (const name of names) {
        takeApart(top, name, (inner) => renameSync(inner, at(top, `${prefix}-${moved++}`)));
      }
    }
  } finally {
    closeFolder(top);
  }
}

function takeApart(folder: number, name: string, moveUp: (inner: string | Buffer) => void): void {
  if (!isFolder(folder, name)) return unlinkSync(at(folder, name));
  const child = openChild(folder, name);
  try {
    for (const inner of namesIn(child)) {
      if (isFolder(child, inner)) moveUp(at(child, inner));
      else unlinkSync(at(child, inner));
    }
  } finally {
    closeFolder(child);
  }
  rmdirSync(at(folder, name));
}

/** The names in an open folder, as byte strings. */
export function namesIn(folder: number): string[] {
  return readdirSync(self(folder), { encoding: "buffer" }).map((name) => name.toString("latin1"));
}

/** Whether a name is a folder. False for a link to a folder, and if it does not exist. */
export function isFolder(folder: number, name: string): boolean {
  return lstatSync(at(folder, name), { throwIfNoEntry: false })?.isDirectory() ?? false;
}
