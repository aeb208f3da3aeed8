import fs from "node:fs";
import path from "node:path";
import { AgentError } from "@kip/agent-api";
import { isSystemError } from "@kip/base";

/** Linux's O_PATH, which Node does not define: a descriptor that refers to a path without opening the file. */
const openPath = 0o10000000;
const { O_NOFOLLOW, O_DIRECTORY } = fs.constants;
const maxLinks = 40;
/** Maximum number of names in a path and its links. A Linux path has at most 2048, and each of 40 links may have as many. */
const maxNames = 4096;
/** Maximum number of open folders, which are needed to go back at "..". */
const maxDepth = 1024;
/** The mode bits that a kubelet copies from the volume's root to folders that it creates for a subPath. */
const modeBits = 0o7777;
const setgid = 0o2000;

/** A pinned path below a folder. What it refers to cannot be replaced until it is closed. */
export interface PinnedPath extends Disposable {
  /** A path by which other processes can use the pinned path while this process holds it. */
  readonly path: string;
  readonly isDirectory: boolean;
}

/**
 * Finds a path below a root folder without ever leaving it, for a volume's `subPath`. The pod's containers may be writing to
 * the root at the same time. So each step starts from a descriptor and does not follow links. Links are read and resolved here
 * (the files of a ConfigMap are links), and one that leads out is refused. Missing folders are created with the root folder's
 * mode, like the kubelet's SafeMakeDir does, because a process that may write to the volume may write there.
 *
 * @param owner user and group of created folders, unless they inherit the group of their parent. @default 0
 * @throws {AgentError} code `AGENT_PATH_UNSAFE`
 */
export function pinPath(root: string, subPath: string, owner = 0): PinnedPath {
  const leadsOut = (): never => {
    throw unsafe(subPath, "it leads out of the volume");
  };
  const open = (place: string, mode: number): number =>
    openExisting(place) ?? makeDirectory(place, { mode, owner });
  const pinned = walk(root, subPath, { atRoot: leadsOut, open });
  return pinned ?? leadsOut();
}

/**
 * Finds a path in a root file system like its own processes would. Links are resolved within it, and none leads out. Creates
 * nothing.
 *
 * @returns undefined if it does not exist
 * @throws {AgentError} code `AGENT_PATH_UNSAFE`
 */
export function pinInRoot(root: string, place: string): PinnedPath | undefined {
  return walk(root, place, { atRoot: () => {}, open: openExisting });
}

/** Rules for resolving a path. */
interface Rules {
  /** Called if the path goes above the root or starts from it again. The position then stays at the root. */
  readonly atRoot: () => void;
  /** Opens the entry with this name without following it. Undefined ends the walk. */
  readonly open: (place: string, mode: number) => number | undefined;
}

function walk(root: string, subPath: string, rules: Rules): PinnedPath | undefined {
  const open: number[] = [fs.openSync(root, openPath | O_DIRECTORY)];
  const mode = fs.fstatSync(open[0] ?? 0).mode & modeBits;
  const closeTo = (depth: number): void => {
    for (const fd of open.splice(depth)) fs.closeSync(fd);
  };
  let todo = split(subPath);
  let links = 0;
  let names = 0;
  try {
    for (let name = todo.shift(); name !== undefined; name = todo.shift()) {
      if (++names > maxNames || open.length > maxDepth)
        throw unsafe(subPath, "it has too many parts");
      if (name === "..") {
        if (open.length === 1) rules.atRoot();
        closeTo(Math.max(1, open.length - 1));
        continue;
      }
      const place = `${descriptorPath(open)}/${name}`;
      const fd = rules.open(place, mode);
      if (fd === undefined) {
        closeTo(0);
        return undefined;
      }
      if (!fs.fstatSync(fd).isSymbolicLink()) {
        open.push(fd);
        continue;
      }
      fs.closeSync(fd);
      const target = fs.readlinkSync(place);
      if (path.isAbsolute(target)) {
        rules.atRoot();
        closeTo(1);
      }
      if (++links > maxLinks) throw unsafe(subPath, "it has too many links");
      todo = [...split(target), ...todo];
    }
  } catch (error) {
    closeTo(0);
    throw AgentError.is(error, "AGENT_PATH_UNSAFE") ? error : unsafe(subPath, String(error), error);
  }
  const last = open.pop() ?? 0;
  closeTo(0);
  return {
    path: `/proc/${process.pid}/fd/${last}`,
    isDirectory: fs.fstatSync(last).isDirectory(),
    [Symbol.dispose]: () => fs.closeSync(last),
  };
}

function openExisting(place: string): number | undefined {
  try {
    return fs.openSync(place, openPath | O_NOFOLLOW);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}

function makeDirectory(
  place: string,
  { mode, owner }: { readonly mode: number; readonly owner: number },
): number {
  try {
    fs.mkdirSync(place, { mode: mode & 0o777 });
  } catch (error) {
    // A container has created it in the meantime. It is used with the mode that it has.
    if (!isSystemError(error, "EEXIST")) throw error;
    return fs.openSync(place, openPath | O_NOFOLLOW);
  }
  const fd = fs.openSync(place, openPath | O_NOFOLLOW);
  try {
    const made = fs.fstatSync(fd);
    const wanted = mode | (made.mode & setgid);
    const isRight = (made.mode & modeBits) === wanted && owner === 0;
    if (isRight || !isOurs(fd, made)) return fd;
    fs.chownSync(pathOf(fd), owner, made.gid === 0 ? owner : made.gid);
    fs.chmodSync(pathOf(fd), wanted);
    return fd;
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

/**
 * Whether this can be the folder that was just created. A container may have replaced it by another one to which it has no
 * access, and which must not become accessible.
 */
function isOurs(fd: number, stat: fs.Stats): boolean {
  if (!stat.isDirectory() || stat.uid !== process.geteuid?.()) return false;
  using entries = fs.opendirSync(pathOf(fd));
  return entries.readSync() === null;
}

function descriptorPath(open: readonly number[]): string {
  return pathOf(open.at(-1) ?? 0);
}

function pathOf(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

function split(text: string): string[] {
  return text.split("/").filter((name) => name !== "" && name !== ".");
}

function unsafe(subPath: string, reason: string, cause?: unknown): AgentError {
  return new AgentError("AGENT_PATH_UNSAFE", `Cannot use subPath "${subPath}": ${reason}`, {
    cause,
  });
}
