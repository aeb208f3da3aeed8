import { existsSync, mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { runCommand } from "@kip/base";

/**
 * A new file system for each run: ext4 in a file. So nothing is in the page cache, no data is waiting to be written, and no run
 * is slowed by an earlier one. The last matters: for minutes after many files were removed, ext4 skips each of their inodes
 * when it looks for a free one, and creating a file takes twenty times as long.
 */
export class FreshDisk implements AsyncDisposable {
  readonly #file: string;
  readonly #bytes: number;
  /** The mount point. */
  readonly folder: string;
  #isMounted = false;

  /** @param place a folder on the disk that should contain the file systems */
  constructor(place: string, bytes: number) {
    this.#file = path.join(place, "disk");
    this.folder = path.join(place, "mounted");
    this.#bytes = bytes;
  }

  /** Replaces the file system by a new, empty one. */
  async renew(): Promise<void> {
    await this[Symbol.asyncDispose]();
    mkdirSync(this.folder, { recursive: true });
    await runCommand("fallocate", ["-l", `${this.#bytes}`, this.#file]);
    await runCommand("mkfs.ext4", ["-q", "-F", "-E", "nodiscard", this.#file]);
    await runCommand("sync");
    // So that no kernel thread clears inode tables during a run.
    await runCommand("mount", ["-o", "loop,noinit_itable", this.#file, this.folder]);
    this.#isMounted = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isMounted) await runCommand("umount", [this.folder]);
    this.#isMounted = false;
    if (existsSync(this.#file)) rmSync(this.#file);
  }
}
