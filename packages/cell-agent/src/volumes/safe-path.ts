import fs from "node:fs";
import path from "node:path";
import { AgentError } from "@kip/agent-api";
import { isSystemError } from "@kip/base";

/** Linux's O_PATH, which Node does not name: a descriptor that stands for a place and opens nothing. */
const openPath = 0o10000000;
const { O_NOFOLLOW, O_DIRECTORY } = fs.constants;
const maxLinks = 40;
/** Names of a path and of its links together: a path of Linux has 2048 at most, and 40 links could have as many each. */
const maxNames = 4096;
/** Folders that are open at a time: the way back by ".." takes them. */
const maxDepth = 1024;
/** All of a mode that a kubelet gives to the folders it makes for a subPath: that of the volume's root. */
const modeBits = 0o7777;
const setgid = 0o2000;

/** A place below a directory, pinned: what it stands for cannot be exchanged until it is closed. */
export interface PinnedPath extends Disposable {
  /** A path other processes can use for the pinned place while this one holds it. */
  readonly path: string;
  readonly isDirectory: boolean;
}

/**
 * Finds a path below a root directory without ever leaving it, for a volume's `subPath`. The
 * containers of the pod can write in the root at this very moment, so each step goes from a
 * descriptor and follows no link by itself; links are read and walked here (the files of a
 * ConfigMap are links), and one that leads out is refused. Missing directories are made, with the mode
 * of the root directory, as the kubelet's SafeMakeDir does: who may write to the volume may write there.
 *
 * @param owner user and group of the directories that are made, unless the group is that of the one above. @default 0
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
 * Finds a path in a root file system as its own processes would: links are looked up in it, and none leads out. Nothing is made.
 *
 * @returns undefined if there is nothing
 * @throws {AgentError} code `AGENT_PATH_UNSAFE`
 */
export function pinInRoot(root: string, place: string): PinnedPath | undefined {
  return walk(root, place, { atRoot: () => {}, open: openExisting });
}

/** How a path is walked. */
interface Rules {
  /** Called where a path would go above the root, or starts from it again; it stays at the root then. */
  readonly atRoot: () => void;
  /** Opens what has this name, without following it; undefined ends the walk. */
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
    // A container has made it in the meantime: it is what was asked for, with the mode that it has.
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
 * Whether this can be the directory that was just made. A container may have put another in its place, and one that it
 * must not look into is not to be opened to it.
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
