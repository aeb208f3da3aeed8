import { existsSync, mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";

/**
 * A file system of its own for each run: ext4 in a file, made again, so that nothing of it is in the page cache, nothing
 * waits to be written, and no run pays for another's leftovers. That last matters: for minutes after many files were
 * removed, ext4 passes over each of their inodes whenever it looks for a free one, and creating a file takes twenty
 * times as long.
 */
export class FreshDisk implements AsyncDisposable {
  readonly #file: string;
  readonly #bytes: number;
  /** Where it is mounted. */
  readonly folder: string;
  #isMounted = false;

  /** @param place a folder on the disk that the file systems are to be on */
  constructor(place: string, bytes: number) {
    this.#file = path.join(place, "disk");
    this.folder = path.join(place, "mounted");
    this.#bytes = bytes;
  }

  /** Puts a new, empty file system in the place of the last. */
  async renew(): Promise<void> {
    await this[Symbol.asyncDispose]();
    mkdirSync(this.folder, { recursive: true });
    await runCommand("fallocate", ["-l", `${this.#bytes}`, this.#file]);
    await runCommand("mkfs.ext4", ["-q", "-F", "-E", "nodiscard", this.#file]);
    await runCommand("sync");
    // No thread of the kernel clears inode tables meanwhile.
    await runCommand("mount", ["-o", "loop,noinit_itable", this.#file, this.folder]);
    this.#isMounted = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isMounted) await runCommand("umount", [this.folder]);
    this.#isMounted = false;
    if (existsSync(this.#file)) rmSync(this.#file);
  }
}
