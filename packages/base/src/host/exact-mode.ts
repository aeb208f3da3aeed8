import { chmodSync, closeSync, constants, mkdirSync, openSync } from "node:fs";
import { chmod, mkdir, open, type FileHandle } from "node:fs/promises";
import path from "node:path";

/** O_PATH of Linux, which Node does not define. It opens a folder whatever its permissions. */
const openPath = 0o10000000;
const openFlags = openPath | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Options of {@link makeFolder}. */
export interface MakeFolderOptions {
  /**
   * Whether to create missing parent folders too, with the same mode. A folder that exists keeps its mode. Without this option
   * it is an error (`EEXIST`). @default false
   */
  readonly recursive?: boolean;
}

/**
 * Creates a folder with exactly this mode. mkdir(2) applies the umask, so any mode other than 0700 also needs chmod(2). A mode
 * without setgid also removes the setgid bit that a folder inherits from its parent.
 *
 * @param mode permission bits with setuid, setgid and sticky, 0 to 0o7777
 * @throws Node's system errors
 */
export async function makeFolder(
  place: string,
  mode: number,
  { recursive = false }: MakeFolderOptions = {},
): Promise<void> {
  const first = await mkdir(place, { recursive, mode: mode & 0o777 });
  for (const made of madeFolders(recursive ? first : place, place)) {
    await using folder = await open(made, openFlags);
    // Not by its name: others who can write to the parent folder may have replaced it with a link.
    await chmod(`/proc/self/fd/${folder.fd}`, mode);
  }
}

/** Like {@link makeFolder}, but synchronous. */
export function makeFolderSync(
  place: string,
  mode: number,
  { recursive = false }: MakeFolderOptions = {},
): void {
  const first = mkdirSync(place, { recursive, mode: mode & 0o777 });
  for (const made of madeFolders(recursive ? first : place, place)) {
    const folder = openSync(made, openFlags);
    try {
      chmodSync(`/proc/self/fd/${folder}`, mode);
    } finally {
      closeSync(folder);
    }
  }
}

/**
 * Creates a file with exactly this mode, whatever the umask, and opens it for writing.
 *
 * @param mode permission bits with setuid, setgid and sticky, 0 to 0o7777
 * @throws Node's system errors; `EEXIST` if the name exists, even as a link
 */
export async function createFile(place: string, mode: number): Promise<FileHandle> {
  const file = await open(place, "wx", mode & 0o777);
  try {
    await file.chmod(mode);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The created folders, from the last one up to the first. */
function madeFolders(first: string | undefined, place: string): readonly string[] {
  if (first === undefined) return [];
  const last = path.resolve(place);
  const names = path.relative(path.resolve(first), last).split(path.sep);
  if (names[0] === "" || names[0] === "..") return [last];
  return [last, ...names.map((_, index) => path.resolve(last, "../".repeat(index + 1)))];
}
