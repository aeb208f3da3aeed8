import { chmodSync, fstatSync, mkdirSync, readlinkSync, utimesSync } from "node:fs";
import { isSystemError } from "@kip/base";
import { invalidImage, limitExceeded, unsafeEntry } from "../errors.ts";
import { at, closeFolder, openChild, openFolder, self, toTime } from "./descriptor-path.ts";

/** An open folder of the tree. */
export interface OpenFolder {
  readonly name: string;
  /** Its real path from the root, without links: "" for the root, or `usr/lib`. */
  readonly path: string;
  readonly fd: number;
  /** Whether new entries inherit the folder's group. */
  isSetgid: boolean;
  /** Seconds. Restored when the folder is left, because writing inside it changes its time. */
  mtime: number | undefined;
}

/** Options of {@link FolderStack}. */
export interface FolderStackOptions {
  /** Greatest depth. */
  readonly maxDepth: number;
  /** Whether folders get their old time back when they are left. Off for readers. */
  readonly keepsTimes: boolean;
  /** Called for each folder that was created because an entry is below it. */
  readonly onImplied?: (path: string) => void;
}

interface Walk {
  readonly create: boolean;
  readonly mayFollow?: ((path: string) => boolean) | undefined;
}

/** The kernel's limit is the same (`ELOOP`). */
const maxLinks = 40;
/**
 * Most path components after the first link of a path. 40 links of 4096 bytes would have 80,000, which takes half a second for
 * each entry.
 */
const maxLinkSteps = 1024;

/**
 * The path from the root of a tree to the current folder, with a handle for each component.
 *
 * The kernel never follows a link here. Links are read and resolved in this class, relative to the tree's root if they are
 * absolute, and never above it. A program inside the container would see the same, and Docker, containerd and umoci do the
 * same. Entries are usually sorted, so nearly every component is already open.
 */
export class FolderStack implements Disposable {
  readonly #stack: OpenFolder[];
  readonly #options: FolderStackOptions;

  constructor(root: string, options: FolderStackOptions) {
    const fd = openFolder(root);
    this.#options = options;
    this.#stack = [{ name: "", path: "", fd, ...this.#facts(fd) }];
  }

  /** Enters a folder. Creates missing folders, with owner root and mode 0755. */
  enter(parts: readonly string[]): OpenFolder {
    const folder = this.#walk(parts, { create: true });
    if (!folder) throw invalidImage("an entry is below something that is not a folder");
    return folder;
  }

  /**
   * Enters a folder. Undefined if it does not exist.
   *
   * @param mayFollow whether a link at a real path may be followed. If not, the folder counts as missing
   */
  find(parts: readonly string[], mayFollow?: (path: string) => boolean): OpenFolder | undefined {
    return this.#walk(parts, { create: false, mayFollow });
  }

  /** Opens a folder inside the current one that was just created or found. */
  push(name: string, known: { readonly isSetgid: boolean; readonly mtime: number }): OpenFolder {
    return this.#push(name, known);
  }

  /** Leaves all folders, which restores their times. */
  [Symbol.dispose](): void {
    this.#truncate(-1);
  }

  #walk(parts: readonly string[], how: Walk): OpenFolder | undefined {
    const top = this.#top();
    // The whole path is already open, so the walk would end here.
    if (parts.join("/") === top.path) return top;
    const left = parts.toReversed();
    let depth = 0;
    let links = 0;
    let linkSteps = 0;
    for (let part = left.pop(); part !== undefined; part = left.pop()) {
      if (links > 0 && ++linkSteps > maxLinkSteps)
        throw unsafeEntry("its way by links is too long");
      if (part === "..") {
        depth = Math.max(0, depth - 1);
        continue;
      }
      const isOpen = this.#stack[depth + 1]?.name === part;
      if (!isOpen) this.#truncate(depth);
      if (isOpen || this.#step(part, how.create)) {
        depth++;
        continue;
      }
      const target = this.#linkTarget(part, how);
      if (target === undefined) return undefined;
      if (++links > maxLinks) throw unsafeEntry("the links on its way never end");
      if (target.startsWith("/")) depth = 0;
      left.push(...target.split("/").filter(isStep).reverse());
    }
    this.#truncate(depth);
    return this.#top();
  }

  #top(): OpenFolder {
    const top = this.#stack.at(-1);
    if (top === undefined) throw new TypeError("The tree is closed");
    return top;
  }

  /** Enters a folder inside the current one. False if it does not exist and was not created. */
  #step(name: string, create: boolean): boolean {
    const folder = this.#top();
    try {
      this.#push(name);
      return true;
    } catch (error) {
      if (isSystemError(error, "ENOTDIR", "ELOOP")) return false;
      if (!isSystemError(error, "ENOENT")) throw error;
    }
    if (!create) return false;
    mkdirSync(at(folder.fd, name), 0o755);
    const { fd, path } = this.#push(name, { isSetgid: folder.isSetgid, mtime: undefined });
    // Independent of the umask. A folder inside one with setgid inherits that bit.
    chmodSync(self(fd), folder.isSetgid ? 0o2755 : 0o755);
    this.#options.onImplied?.(path);
    return true;
  }

  /** Undefined if the name is not a link or must not be followed. */
  #linkTarget(name: string, { mayFollow }: Walk): string | undefined {
    const folder = this.#top();
    if (mayFollow && !mayFollow(pathIn(folder, name))) return undefined;
    try {
      return readlinkSync(at(folder.fd, name), { encoding: "buffer" }).toString("latin1");
    } catch (error) {
      if (isSystemError(error, "EINVAL", "ENOENT")) return undefined;
      throw error;
    }
  }

  #push(
    name: string,
    known?: { readonly isSetgid: boolean; readonly mtime: number | undefined },
  ): OpenFolder {
    const parent = this.#top();
    const { maxDepth } = this.#options;
    if (this.#stack.length > maxDepth) throw limitExceeded("nested folders", maxDepth);
    const fd = openChild(parent.fd, name);
    const folder: OpenFolder = {
      name,
      path: pathIn(parent, name),
      fd,
      ...(known ?? this.#facts(fd)),
    };
    this.#stack.push(folder);
    return folder;
  }

  #facts(fd: number): { readonly isSetgid: boolean; readonly mtime: number | undefined } {
    if (!this.#options.keepsTimes) return { isSetgid: false, mtime: undefined };
    const { mode, mtimeMs } = fstatSync(fd);
    return { isSetgid: (mode & 0o2000) !== 0, mtime: mtimeMs / 1000 };
  }

  #truncate(depth: number): void {
    while (this.#stack.length > depth + 1) {
      const folder = this.#stack.pop();
      if (folder === undefined) return;
      try {
        if (folder.mtime !== undefined) setTime(folder.fd, toTime(folder.mtime));
      } finally {
        closeFolder(folder.fd);
      }
    }
  }
}

function setTime(folder: number, time: number | Date): void {
  utimesSync(self(folder), time, time);
}

function isStep(part: string): boolean {
  return part !== "" && part !== ".";
}

/** The real path of a name in a folder. */
export function pathIn(folder: OpenFolder, name: string): string {
  return folder.path === "" ? name : `${folder.path}/${name}`;
}
