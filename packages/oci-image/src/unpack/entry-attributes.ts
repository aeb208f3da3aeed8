import {
  chmodSync,
  chownSync,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  lutimesSync,
  readFileSync,
} from "node:fs";
import { invalidImage } from "../errors.ts";
import type { TarEntry } from "../tar/tar-entry.ts";
import { at, self, toTime } from "./descriptor-path.ts";
import type { OpenFolder } from "./folder-stack.ts";

/**
 * Sets owners, modes and times with as few calls as possible. Every call is expensive under emulation, and most entries belong
 * to root and have an ordinary mode.
 *
 * Invariant: the owner is set before the mode, because changing the owner clears setuid and setgid.
 */
export class EntryAttributes {
  readonly #isRoot = process.geteuid?.() === 0;
  readonly #umask = readUmask();

  /** For an open file that was just created with the entry's mode. */
  ofNewFile(fd: number, entry: TarEntry, parent: OpenFolder): void {
    const owner = this.#owner(entry, parent.isSetgid);
    if (owner) fchownSync(fd, owner.uid, owner.gid);
    if (this.#mustSetMode(entry.mode, owner !== undefined)) fchmodSync(fd, entry.mode);
    const time = toTime(entry.mtime);
    futimesSync(fd, time, time);
  }

  /** For an open folder. `isNew` means that it was just created with the entry's mode. The folder stack sets its time. */
  ofFolder(
    fd: number,
    entry: TarEntry,
    options: { readonly isNew: boolean; readonly parent?: OpenFolder },
  ): void {
    const inherits = options.parent?.isSetgid === true || !options.isNew;
    const owner = this.#owner(entry, inherits);
    if (owner) chownSync(self(fd), owner.uid, owner.gid);
    if (inherits || this.#mustSetMode(entry.mode, owner !== undefined)) {
      chmodSync(self(fd), entry.mode);
    }
  }

  ofNewLink(parent: OpenFolder, name: string, entry: TarEntry): void {
    const owner = this.#owner(entry, parent.isSetgid);
    if (owner) lchownSync(at(parent.fd, name), owner.uid, owner.gid);
    const time = toTime(entry.mtime);
    lutimesSync(at(parent.fd, name), time, time);
  }

  #owner(
    entry: TarEntry,
    evenRoot: boolean,
  ): { readonly uid: number; readonly gid: number } | undefined {
    const { uid, gid } = entry;
    // For the kernel, the largest number means "leave unchanged".
    if (Math.max(uid, gid) >= 0xffff_ffff) throw invalidImage("an entry has an impossible owner");
    if (!this.#isRoot || (uid === 0 && gid === 0 && !evenRoot)) return undefined;
    return { uid, gid };
  }

  #mustSetMode(mode: number, hasNewOwner: boolean): boolean {
    const isSpecial = (mode & 0o7000) !== 0;
    return isSpecial || (mode & this.#umask) !== 0 || (hasNewOwner && isSpecial);
  }
}

/** The process's umask, read without changing it. `process.umask()` would change it for a moment. */
function readUmask(): number {
  const line = /^Umask:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number.parseInt(line?.[1] ?? "777", 8);
}
