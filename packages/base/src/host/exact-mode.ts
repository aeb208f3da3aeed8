import { chmodSync, closeSync, constants, mkdirSync, openSync } from "node:fs";
import { chmod, mkdir, open, type FileHandle } from "node:fs/promises";
import path from "node:path";

/** O_PATH of Linux, which Node does not name: a handle on a folder, whatever its permissions. */
const openPath = 0o10000000;
const openFlags = openPath | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Options of {@link makeFolder}. */
export interface MakeFolderOptions {
  /**
   * Whether missing folders above are made too, with the same mode. A folder that exists keeps the mode it has;
   * without this option it is an error (`EEXIST`). @default false
   */
  readonly recursive?: boolean;
}

/**
 * Makes a folder with exactly this mode. The kernel takes the bits of the umask away from the mode that
 * mkdir(2) is given, so another mode than 0700 needs chmod(2) as well. A mode without setgid also removes the one that
 * a folder takes over from the folder above.
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
    // Not by its name, where others who write to the folder above may have put a link by now.
    await chmod(`/proc/self/fd/${folder.fd}`, mode);
  }
}

/** As {@link makeFolder}, at once. */
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
 * Makes a file with exactly this mode, whatever the umask, and opens it for writing.
 *
 * @param mode permission bits with setuid, setgid and sticky, 0 to 0o7777
 * @throws Node's system errors; `EEXIST` if there is anything by this name, a link too
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

/** The folders from the last one up to the first that was made. */
function madeFolders(first: string | undefined, place: string): readonly string[] {
  if (first === undefined) return [];
  const last = path.resolve(place);
  const names = path.relative(path.resolve(first), last).split(path.sep);
  if (names[0] === "" || names[0] === "..") return [last];
  return [last, ...names.map((_, index) => path.resolve(last, "../".repeat(index + 1)))];
}
