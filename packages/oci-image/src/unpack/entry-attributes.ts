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
 * Gives owners, modes and times, with as few calls as the case allows: every one of them costs
 * under emulation, and most entries are root's with an ordinary mode.
 *
 * Invariant: owner before mode, as a change of owner takes setuid and setgid away.
 */
export class EntryAttributes {
  readonly #isRoot = process.geteuid?.() === 0;
  readonly #umask = readUmask();

  /** An open file that was just made with the entry's mode. */
  ofNewFile(fd: number, entry: TarEntry, parent: OpenFolder): void {
    const owner = this.#owner(entry, parent.isSetgid);
    if (owner) fchownSync(fd, owner.uid, owner.gid);
    if (this.#mustSetMode(entry.mode, owner !== undefined)) fchmodSync(fd, entry.mode);
    const time = toTime(entry.mtime);
    futimesSync(fd, time, time);
  }

  /** An open folder; `isNew` if it was just made with the entry's mode. Its time is the stack's. */
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
    // The largest number means "leave as it is" to the kernel.
    if (Math.max(uid, gid) >= 0xffff_ffff) throw invalidImage("an entry has an impossible owner");
    if (!this.#isRoot || (uid === 0 && gid === 0 && !evenRoot)) return undefined;
    return { uid, gid };
  }

  #mustSetMode(mode: number, hasNewOwner: boolean): boolean {
    const isSpecial = (mode & 0o7000) !== 0;
    return isSpecial || (mode & this.#umask) !== 0 || (hasNewOwner && isSpecial);
  }
}

/** The process's umask, read without changing it, as `process.umask()` would for a moment. */
function readUmask(): number {
  const line = /^Umask:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/status", "utf8"));
  return Number.parseInt(line?.[1] ?? "777", 8);
}
