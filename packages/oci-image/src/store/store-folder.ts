import { createHash, randomUUID } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { isSystemError, type Clock } from "@kip/base";
import { digestHex, isDigest } from "../digest.ts";
import { at, closeFolder, openChild, openFolder } from "../unpack/descriptor-path.ts";
import { namesIn, removeFolder } from "../unpack/remove-tree.ts";
import { isMountedTree } from "./mounted-trees.ts";

/** No pull takes longer than this, milliseconds. */
const foreignWorkMs = 24 * 3_600_000;

/**
 * The files of a store:
 *
 * | path | content |
 * | --- | --- |
 * | `trees/<hex>` | an unpacked root file system; named by the digest of its layers' diffIDs |
 * | `images/<hex>.json` | the record of an image; named by manifest digest and platform |
 * | `names/<hex>.json` | the image that a name refers to; named by the hash of the full name |
 * | `tmp/<process>.<random>` | unfinished work; removed when a store is opened after its process has ended, or after a day if
 * that was in another PID namespace |
 *
 * Everything is complete when it is renamed to its final name.
 *
 * The calls are synchronous. The files are small and few, and the thread pool would take longer than most of these calls.
 */
export class StoreFolder {
  readonly #root: string;
  readonly #clock: Pick<Clock, "now">;
  readonly #processId = processIdentity("self");

  constructor(root: string, clock: Pick<Clock, "now">) {
    this.#root = root;
    this.#clock = clock;
  }

  /** Creates the folders and removes what killed processes have left. */
  async prepare(): Promise<void> {
    for (const folder of ["trees", "images", "names", "tmp"]) {
      // Only for root: a tree contains setuid files and everything else of the image.
      mkdirSync(path.join(this.#root, folder), { recursive: true, mode: 0o700 });
    }
    for (const name of readdirSync(path.join(this.#root, "tmp"))) {
      const work = path.join(this.#root, "tmp", name);
      if (!this.#isAbandoned(name.slice(0, name.lastIndexOf(".")), work)) continue;
      if (this.#isRidOfTrees(work)) await removeFolder(work);
    }
  }

  /** Restores trees that a killed process moved away while they were mounted. @returns false if one must stay */
  #isRidOfTrees(work: string): boolean {
    try {
      const mounted = readdirSync(work).filter((name) => isHex(name) && isMountedTree(name));
      return mounted.every((hex) => this.#putBack(path.join(work, hex), hex));
    } catch (error) {
      // A draft of a record, or another process is doing the same.
      if (isSystemError(error, "ENOTDIR", "ENOENT")) return true;
      throw error;
    }
  }

  #isAbandoned(owner: string, work: string): boolean {
    const [pid = "", , boot, namespace] = owner.split("-");
    const [, , ownBoot, ownNamespace] = this.#processId.split("-");
    const isForeign = boot === ownBoot && namespace !== undefined && namespace !== ownNamespace;
    if (!isForeign) return processIdentity(pid) !== owner;
    // Processes of another PID namespace are invisible here.
    const facts = lstatSync(work, { throwIfNoEntry: false });
    return facts !== undefined && this.#clock.now() - facts.mtimeMs > foreignWorkMs;
  }

  treePath(treeId: string): string {
    return path.join(this.#root, "trees", digestHex(treeId));
  }

  hasTree(treeId: string): boolean {
    return existsSync(this.treePath(treeId));
  }

  /** The unpacked trees: hex digits of the digest, bytes on disk, and time of last use. */
  listTrees(): readonly {
    readonly hex: string;
    readonly bytes: number;
    readonly usedAt: number;
  }[] {
    const trees = path.join(this.#root, "trees");
    return readdirSync(trees).map((hex) => ({
      hex,
      bytes: diskBytes(path.join(trees, hex)),
      usedAt: this.usedAt(hex),
    }));
  }

  /** Marks a tree as used now. Call this before checking that it exists. */
  markUsed(treeId: string, now: number): void {
    const seconds = now / 1000;
    const record = this.#recordPath("images", treeId);
    try {
      // A process that removed another copy of the tree may have removed the record too.
      if (!existsSync(record) && this.hasTree(treeId)) this.writeRecord("images", treeId, []);
      utimesSync(record, seconds, seconds);
    } catch (error) {
      // The tree does not exist, or the store is shared read-only.
      if (!isSystemError(error, "ENOENT", "EROFS", "EACCES", "EPERM")) throw error;
    }
  }

  /**
   * Replaces a damaged tree.
   *
   * @param isUsed called after the damaged tree was renamed
   * @returns false if the tree is in use and stays
   */
  async replaceTree(folder: string, treeId: string, isUsed: () => boolean): Promise<boolean> {
    const hex = digestHex(treeId);
    return await this.#takeAway(hex, isUsed, () => this.publishTree(folder, treeId));
  }

  /**
   * Removes a tree. It is renamed first. Processes that have found it earlier have marked or mounted it by then, and later ones
   * do not find it.
   *
   * @param isUsed called after the tree was renamed
   * @returns false if it is in use and stays, or if another process was first
   */
  async removeTree(hex: string, isUsed: () => boolean): Promise<boolean> {
    return await this.#takeAway(hex, isUsed, () => {
      // Remove the record now. Deleting the tree takes time, and the image may be unpacked again in the meantime.
      rmSync(this.#recordPath("images", `sha256:${hex}`), { force: true });
    });
  }

  async #takeAway(hex: string, isUsed: () => boolean, done: () => void): Promise<boolean> {
    const work = this.makeWorkFolder();
    // Keep its own name, so that a mounted tree can be identified if this process is killed.
    const away = path.join(work, hex);
    let isFree = false;
    let isHere = true;
    try {
      renameSync(path.join(this.#root, "trees", hex), away);
      isHere = false;
      isFree = !isUsed();
      if (isFree) done();
      return isFree;
    } catch (error) {
      if (isHere && isSystemError(error, "ENOENT")) return false;
      throw error;
    } finally {
      if (isHere || isFree || this.#putBack(away, hex)) await removeFolder(work);
    }
  }

  /** @returns false if there is another copy by now. This one may be mounted, and stays where it is */
  #putBack(away: string, hex: string): boolean {
    try {
      renameSync(away, path.join(this.#root, "trees", hex));
      return true;
    } catch (error) {
      if (isSystemError(error, "ENOTEMPTY", "EEXIST")) return false;
      throw error;
    }
  }

  /** Removes records of images and names whose tree is gone. */
  removeDanglingRecords(): void {
    for (const kind of ["images", "names"] as const) {
      const folder = path.join(this.#root, kind);
      for (const name of readdirSync(folder)) {
        const record = this.#parse(path.join(folder, name));
        if (kind === "images" && this.#lacksTree(record))
          rmSync(path.join(folder, name), { force: true });
        if (kind === "names" && this.#lacksImage(record))
          rmSync(path.join(folder, name), { force: true });
      }
    }
  }

  /** All names of images. */
  listNames(): readonly unknown[] {
    const folder = path.join(this.#root, "names");
    return readdirSync(folder).map((name) => this.#parse(path.join(folder, name)));
  }

  #lacksTree(record: unknown): boolean {
    const treeId = textField(record, "treeId");
    return treeId !== undefined && isDigest(treeId) && !this.hasTree(treeId);
  }

  #lacksImage(record: unknown): boolean {
    const image = textField(record, "image");
    return image !== undefined && !existsSync(this.#recordPath("images", image));
  }

  /** When a tree was last used. 0 if it is gone. */
  usedAt(hex: string): number {
    const places = [
      this.#recordPath("images", `sha256:${hex}`),
      path.join(this.#root, "trees", hex),
    ];
    for (const place of places) {
      // Without a record: a process was killed before it wrote one.
      const facts = statSync(place, { throwIfNoEntry: false });
      if (facts) return facts.mtimeMs;
    }
    return 0;
  }

  /** Creates a folder for unfinished work. The caller removes it. */
  makeWorkFolder(): string {
    const folder = path.join(this.#root, "tmp", `${this.#processId}.${randomUUID()}`);
    mkdirSync(folder, { mode: 0o700 });
    return folder;
  }

  /** Gives a finished tree its final name. If another process was first, its tree is the same. */
  publishTree(folder: string, treeId: string): void {
    try {
      renameSync(folder, this.treePath(treeId));
    } catch (error) {
      if (!isSystemError(error, "ENOTEMPTY", "EEXIST")) throw error;
    }
  }

  /** Reads a record. Undefined if it does not exist or this version cannot read it. */
  readRecord(kind: "images" | "names", key: string): unknown {
    return this.#parse(this.#recordPath(kind, key));
  }

  #parse(file: string): unknown {
    // Most often it does not exist. An exception would take longer than this check.
    if (!existsSync(file)) return undefined;
    try {
      return JSON.parse(readFileSync(file, "utf8"));
    } catch (error) {
      if (isSystemError(error, "ENOENT") || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  writeRecord(kind: "images" | "names", key: string, record: unknown): void {
    const text = JSON.stringify(record);
    const file = this.#recordPath(kind, key);
    // The content is usually unchanged, and reading it is cheaper than writing it again.
    if (existsSync(file) && readFileSync(file, "utf8") === text) return;
    const draft = path.join(this.#root, "tmp", `${this.#processId}.${randomUUID()}`);
    writeFileSync(draft, text, { mode: 0o600 });
    renameSync(draft, file);
  }

  #recordPath(kind: string, key: string): string {
    const hex = createHash("sha256").update(key).digest("hex");
    return path.join(this.#root, kind, `${hex}.json`);
  }
}

function isHex(name: string): boolean {
  return isDigest(`sha256:${name}`);
}

function textField(record: unknown, name: string): string | undefined {
  if (typeof record !== "object" || record === null || !(name in record)) return undefined;
  const value: unknown = Reflect.get(record, name);
  return typeof value === "string" ? value : undefined;
}

/** Size of a tree on the disk, bytes. Counts a file with several links once. 0 if the tree is removed in the meantime. */
function diskBytes(root: string): number {
  const seen = new Set<number>();
  let bytes = 0;
  const visit = (folder: number): void => {
    for (const name of namesIn(folder)) {
      const facts = lstatSync(at(folder, name), { throwIfNoEntry: false });
      if (!facts || (!facts.isDirectory() && seen.has(facts.ino))) continue;
      if (facts.nlink > 1) seen.add(facts.ino);
      bytes += facts.blocks * 512;
      if (facts.isDirectory()) inside(openChild(folder, name));
    }
  };
  const inside = (folder: number): void => {
    try {
      visit(folder);
    } finally {
      closeFolder(folder);
    }
  };
  try {
    inside(openFolder(root));
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
  return bytes;
}

/** `<pid>-<start time>-<boot>-<PID namespace>`, which is unique over time. Empty if the process is gone. */
function processIdentity(pid: string): string {
  if (!/^(?:self|\d+)$/.test(pid)) return "";
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name, in parentheses, may contain anything, so the fields are counted from after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8);
    const namespace = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
    return `${Number.parseInt(stat, 10)}-${fields[19]}-${boot}-${namespace}`;
  } catch {
    return "";
  }
}
