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

/** No pull takes so long, milliseconds. */
const foreignWorkMs = 24 * 3_600_000;

/**
 * The files of a store:
 *
 * | path | content |
 * | --- | --- |
 * | `trees/<hex>` | an unpacked root file system; named by the digest of its layers' diffIDs |
 * | `images/<hex>.json` | what is known of an image; named by manifest digest and platform |
 * | `names/<hex>.json` | which image a name stands for; named by the hash of the full name |
 * | `tmp/<process>.<random>` | work that is not done; removed at an opening once its process is gone; of another PID namespace, after a day |
 *
 * Everything appears under its final name by a rename, whole.
 *
 * All at once, not through the thread pool: these files are small and few, and a turn through it takes longer than
 * most of these calls.
 */
export class StoreFolder {
  readonly #root: string;
  readonly #clock: Pick<Clock, "now">;
  readonly #processId = processIdentity("self");

  constructor(root: string, clock: Pick<Clock, "now">) {
    this.#root = root;
    this.#clock = clock;
  }

  /** Makes the folders, and removes what killed processes left. */
  async prepare(): Promise<void> {
    for (const folder of ["trees", "images", "names", "tmp"]) {
      // Only for root: a tree holds setuid files and whatever else the image has.
      mkdirSync(path.join(this.#root, folder), { recursive: true, mode: 0o700 });
    }
    for (const name of readdirSync(path.join(this.#root, "tmp"))) {
      const work = path.join(this.#root, "tmp", name);
      if (!this.#isAbandoned(name.slice(0, name.lastIndexOf(".")), work)) continue;
      if (this.#isRidOfTrees(work)) await removeFolder(work);
    }
  }

  /** Gives trees back that a killed process took away while they were mounted. @returns false if one must stay there */
  #isRidOfTrees(work: string): boolean {
    try {
      const mounted = readdirSync(work).filter((name) => isHex(name) && isMountedTree(name));
      return mounted.every((hex) => this.#putBack(path.join(work, hex), hex));
    } catch (error) {
      // A record's draft; or another process is at it as well.
      if (isSystemError(error, "ENOTDIR", "ENOENT")) return true;
      throw error;
    }
  }

  #isAbandoned(owner: string, work: string): boolean {
    const [pid = "", , boot, namespace] = owner.split("-");
    const [, , ownBoot, ownNamespace] = this.#processId.split("-");
    const isForeign = boot === ownBoot && namespace !== undefined && namespace !== ownNamespace;
    if (!isForeign) return processIdentity(pid) !== owner;
    // Whether its process lives cannot be seen from here.
    const facts = lstatSync(work, { throwIfNoEntry: false });
    return facts !== undefined && this.#clock.now() - facts.mtimeMs > foreignWorkMs;
  }

  treePath(treeId: string): string {
    return path.join(this.#root, "trees", digestHex(treeId));
  }

  hasTree(treeId: string): boolean {
    return existsSync(this.treePath(treeId));
  }

  /** Unpacked trees: the hex digits of their digest, bytes on disk, when they were last used. */
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

  /** Notes that a tree is used now; to be called before it is looked for. */
  markUsed(treeId: string, now: number): void {
    const seconds = now / 1000;
    const record = this.#recordPath("images", treeId);
    try {
      // Who removed another copy of the tree may have taken the record away as well.
      if (!existsSync(record) && this.hasTree(treeId)) this.writeRecord("images", treeId, []);
      utimesSync(record, seconds, seconds);
    } catch (error) {
      // No such tree, or a store that is shared read-only.
      if (!isSystemError(error, "ENOENT", "EROFS", "EACCES", "EPERM")) throw error;
    }
  }

  /**
   * Puts a tree in the place of one that is damaged.
   * @param isUsed asked when the damaged tree has left its name
   * @returns false if it is used and stays
   */
  async replaceTree(folder: string, treeId: string, isUsed: () => boolean): Promise<boolean> {
    const hex = digestHex(treeId);
    return await this.#takeAway(hex, isUsed, () => this.publishTree(folder, treeId));
  }

  /**
   * Removes a tree. It leaves its name first: who found it before has marked it or mounted it by then, and who comes
   * later does not find it.
   *
   * @param isUsed asked when the tree has left its name
   * @returns false if it is used and stays, or if another process was first
   */
  async removeTree(hex: string, isUsed: () => boolean): Promise<boolean> {
    return await this.#takeAway(hex, isUsed, () => {
      // At once: to take the tree apart lasts, and it may be unpacked again meanwhile.
      rmSync(this.#recordPath("images", `sha256:${hex}`), { force: true });
    });
  }

  async #takeAway(hex: string, isUsed: () => boolean, done: () => void): Promise<boolean> {
    const work = this.makeWorkFolder();
    // By its own name, so that one that is mounted is known if we are killed.
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

  /** @returns false if there is another copy by now: this one may be mounted, and stays where it is */
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

  /** The names that stand for an image. */
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

  /** When a tree was last used; 0 if it is gone. */
  usedAt(hex: string): number {
    const places = [
      this.#recordPath("images", `sha256:${hex}`),
      path.join(this.#root, "trees", hex),
    ];
    for (const place of places) {
      // Without a record: of a process that was killed before it wrote one.
      const facts = statSync(place, { throwIfNoEntry: false });
      if (facts) return facts.mtimeMs;
    }
    return 0;
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
      if (!isSystemError(error, "ENOTEMPTY", "EEXIST")) throw error;
    }
  }

  /** Reads a record; undefined if there is none, or it is not ours to understand. */
  readRecord(kind: "images" | "names", key: string): unknown {
    return this.#parse(this.#recordPath(kind, key));
  }

  #parse(file: string): unknown {
    // Most often there is none; to make an error of that takes longer than to look.
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
    // To read what is most often the same takes less than to write it again.
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

/** Bytes that a tree takes on the disk, files with several names counted once; 0 if it is removed meanwhile. */
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

/**
 * `<pid>-<start time>-<boot>-<PID namespace>`: no later process is ever called the same. Empty if it is gone.
 */
function processIdentity(pid: string): string {
  if (!/^(?:self|\d+)$/.test(pid)) return "";
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The program's name, in brackets, may hold anything; the fields are counted after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, 8);
    const namespace = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
    return `${Number.parseInt(stat, 10)}-${fields[19]}-${boot}-${namespace}`;
  } catch {
    return "";
  }
}
