import { createHash, randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { hasCode } from "@kip/base";
import { digestHex } from "../digest.ts";

/**
 * The files of a store:
 *
 * | path | content |
 * | --- | --- |
 * | `trees/<hex>` | an unpacked root file system; named by the digest of its layers' diffIDs |
 * | `images/<hex>.json` | what is known of an image; named by manifest digest and platform |
 * | `names/<hex>.json` | which image a name stands for; named by the hash of the full name |
 * | `tmp/<process>.<random>` | work that is not done; removed at an opening once its process is gone |
 *
 * Everything appears under its final name by a rename, whole.
 *
 * All at once, not through the thread pool: these files are small and few, and a turn through it takes longer than
 * most of these calls.
 */
export class StoreFolder {
  readonly #root: string;
  readonly #processId = processIdentity("self");

  constructor(root: string) {
    this.#root = root;
  }

  /** Makes the folders, and removes what killed processes left. */
  async prepare(): Promise<void> {
    for (const folder of ["trees", "images", "names", "tmp"]) {
      // Only for root: a tree holds setuid files and whatever else the image has.
      mkdirSync(path.join(this.#root, folder), { recursive: true, mode: 0o700 });
    }
    for (const name of readdirSync(path.join(this.#root, "tmp"))) {
      const owner = name.slice(0, name.lastIndexOf("."));
      if (processIdentity(owner.split("-")[0] ?? "") === owner) continue;
      await rm(path.join(this.#root, "tmp", name), { recursive: true, force: true });
    }
  }

  treePath(treeId: string): string {
    return path.join(this.#root, "trees", digestHex(treeId));
  }

  hasTree(treeId: string): boolean {
    return existsSync(this.treePath(treeId));
  }

  /** Makes a folder for unfinished work. The caller removes it. */
  makeWorkFolder(): string {
    const folder = path.join(this.#root, "tmp", `${this.#processId}.${randomUUID()}`);
    mkdirSync(folder, { mode: 0o700 });
    return folder;
  }

  /** Gives a finished tree its name. If another process was first, its tree is the same. */
  publishTree(folder: string, treeId: string): void {
    try {
      renameSync(folder, this.treePath(treeId));
    } catch (error) {
      if (!hasCode(error, "ENOTEMPTY", "EEXIST")) throw error;
    }
  }

  /** Reads a record; undefined if there is none, or it is not ours to understand. */
  readRecord(kind: "images" | "names", key: string): unknown {
    try {
      return JSON.parse(readFileSync(this.#recordPath(kind, key), "utf8"));
    } catch (error) {
      if (hasCode(error, "ENOENT") || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  writeRecord(kind: "images" | "names", key: string, record: unknown): void {
    const draft = path.join(this.#root, "tmp", `${this.#processId}.${randomUUID()}`);
    writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    renameSync(draft, this.#recordPath(kind, key));
  }

  #recordPath(kind: string, key: string): string {
    const hex = createHash("sha256").update(key).digest("hex");
    return path.join(this.#root, kind, `${hex}.json`);
  }
}

/** `<pid>-<start time>-<boot>`: no later process is ever called the same. Empty if it is gone. */
function processIdentity(pid: string): string {
  if (!/^(?:self|\d+)$/.test(pid)) return "";
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name, in brackets, may hold anything; the fields are counted after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8);
    return `${Number.parseInt(stat, 10)}-${fields[19]}-${boot}`;
  } catch {
    return "";
  }
}
