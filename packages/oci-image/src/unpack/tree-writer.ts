import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  openSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { isSystemError } from "@kip/base";
import {
  invalidImage,
  limitExceeded,
  printable,
  unsafeEntry,
  within,
  writeFailure,
} from "../errors.ts";
import type { TarEntry } from "../tar/tar-entry.ts";
import type { TarSink } from "../tar/tar-parser.ts";
import { at, closeFolder, reopenFolder, toPath } from "./descriptor-path.ts";
import { EntryAttributes } from "./entry-attributes.ts";
import { FolderStack, pathIn, type OpenFolder } from "./folder-stack.ts";
import type { UnpackLimits } from "./limits.ts";
import { isFolder, removeTree } from "./remove-tree.ts";
import { SpecialEntries } from "./special-entries.ts";
import { hideContent, hideName, LayerPaths, parseWhiteout, type Whiteout } from "./whiteouts.ts";

const createFlags =
  constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Applies layers to one folder, bottom first; whiteouts become deletions.
 *
 * Invariants: every change is one step below an open folder ({@link FolderStack}); what stands in
 * the way of an entry is removed, never written through; content is written to a file that this
 * entry made.
 */
export class TreeWriter implements TarSink, Disposable {
  readonly #stack: FolderStack;
  readonly #attributes = new EntryAttributes();
  readonly #limits: UnpackLimits;
  readonly #kept: LayerPaths;
  #isBottom = true;
  #entries = 0;
  #file:
    | {
        readonly fd: number;
        readonly entry: TarEntry;
        readonly parent: OpenFolder;
        /** Where the next piece goes; absent while there was no hole. */
        position?: number;
      }
    | undefined;
  readonly #special: SpecialEntries;
  #holes = 0;

  /** @param root an empty folder that nothing else writes to */
  constructor(
    root: string,
    limits: UnpackLimits,
    options: { readonly makesDevices: boolean } = { makesDevices: false },
  ) {
    this.#limits = limits;
    this.#kept = new LayerPaths(limits.nameBytes);
    this.#special = new SpecialEntries(root, options);
    this.#stack = new FolderStack(root, {
      maxDepth: limits.depth,
      keepsTimes: true,
      onImplied: (path) => {
        this.#count();
        this.#wrote(path);
      },
    });
  }

  /** What was left out so far, a sentence each. */
  get notes(): readonly string[] {
    const { devices, fifos, xattrs } = this.#special.leftOut;
    return [
      ...(devices > 0 ? [`${devices} device nodes were left out`] : []),
      ...(fifos > 0 ? [`${fifos} FIFOs were left out`] : []),
      ...[...xattrs].map(
        ([name, count]) => `attribute ${printable(name, 100)} of ${count} entries was left out`,
      ),
    ];
  }

  /** How many programs were run for special files and attributes: nothing else in this process could run meanwhile. */
  get runs(): number {
    return this.#special.runs;
  }

  /** Ends a layer; what comes next is above it. */
  nextLayer(): void {
    this.#special.flush();
    this.#kept.clear();
    this.#isBottom = false;
  }

  /** Ends the image; to be called after its last layer. */
  finish(): void {
    this.#special.finish();
  }

  entry(entry: TarEntry): void {
    try {
      this.#count();
      this.#apply(entry);
    } catch (error) {
      throw explain(error, entry);
    }
  }

  content(piece: Buffer): void {
    if (!this.#file) return;
    let written = 0;
    try {
      while (written < piece.length) {
        const left = piece.length - written;
        const { fd, position } = this.#file;
        const count = writeSync(fd, piece, written, left, position);
        if (position !== undefined) this.#file.position = position + count;
        written += count;
      }
    } catch (error) {
      throw explain(error, this.#file.entry);
    }
  }

  hole(length: number): void {
    const file = this.#file;
    if (!file) return;
    this.#holes += length;
    // A hole costs no disk, but time of all that read the file.
    if (this.#holes > this.#limits.unpackedBytes) {
      throw explain(limitExceeded("unpacked bytes", this.#limits.unpackedBytes), file.entry);
    }
    file.position = (file.position ?? fstatSync(file.fd).size) + length;
  }

  contentEnd(): void {
    const file = this.#file;
    if (!file) return;
    this.#file = undefined;
    try {
      if (file.position !== undefined) ftruncateSync(file.fd, file.entry.size);
      this.#attributes.ofNewFile(file.fd, file.entry, file.parent);
    } catch (error) {
      throw explain(error, file.entry);
    } finally {
      closeSync(file.fd);
    }
  }

  [Symbol.dispose](): void {
    if (this.#file) closeSync(this.#file.fd);
    this.#file = undefined;
    this.#stack[Symbol.dispose]();
  }

  #count(): void {
    if (++this.#entries > this.#limits.entries) {
      throw limitExceeded("entries", this.#limits.entries);
    }
  }

  /** Something new is at a real path. */
  #wrote(path: string): void {
    this.#special.forget(path);
    this.#keep(path);
  }

  #apply(entry: TarEntry): void {
    const parts = splitEntryName(entry.name);
    const base = parts.pop();
    const special = isSpecial(entry) ? parts.join("/") : undefined;
    this.#special.settle(special);
    if (base === undefined) return this.#applyRoot(entry);
    const whiteout = parseWhiteout(base);
    if (whiteout) return this.#applyWhiteout(whiteout, parts);
    if (entry.kind === "hardlink") return this.#applyHardLink(parts, base, entry);
    const parent = this.#stack.enter(parts);
    const path = pathIn(parent, base);
    this.#wrote(path);
    switch (entry.kind) {
      case "directory":
        this.#applyFolder(parent, base, entry);
        break;
      case "file":
        this.#applyFile(parent, base, entry);
        break;
      case "symlink":
        this.#applySymlink(parent, base, entry);
        break;
      case "fifo":
      case "character-device":
      case "block-device":
        removeTree(parent.fd, base);
        if (!this.#special.makeNode(special ?? "", path, entry)) return;
    }
    this.#special.describe(path, entry);
  }

  #applyRoot(entry: TarEntry): void {
    if (entry.kind !== "directory") throw unsafeEntry("it would replace the root");
    const root = this.#stack.enter([]);
    this.#describeFolder(root, entry, { isNew: false });
    this.#special.describe("", entry);
  }

  #applyWhiteout(whiteout: Whiteout, parts: readonly string[]): void {
    if (this.#isBottom || whiteout.kind === "aufs") return;
    // Builders write whiteouts for all that was in a folder that is a link now; the link's target
    // has nothing to do with them.
    const folder = this.#stack.find(parts, (path) => !this.#kept.has(path));
    if (!folder) return;
    if (whiteout.kind === "opaque") hideContent(folder.fd, folder.path, this.#kept);
    else hideName(folder.fd, folder.path, whiteout.name, this.#kept);
  }

  #applyFolder(parent: OpenFolder, name: string, entry: TarEntry): void {
    let isNew = true;
    const make = (): void => mkdirSync(at(parent.fd, name), entry.mode & 0o777);
    try {
      make();
    } catch (error) {
      if (!isSystemError(error, "EEXIST")) throw error;
      isNew = !isFolder(parent.fd, name);
      if (isNew) this.#replace(parent, name, make);
    }
    const folder = this.#stack.push(name, { isSetgid: false, mtime: entry.mtime });
    this.#describeFolder(folder, entry, { isNew, parent });
  }

  #describeFolder(
    folder: OpenFolder,
    entry: TarEntry,
    options: { readonly isNew: boolean; readonly parent?: OpenFolder },
  ): void {
    this.#attributes.ofFolder(folder.fd, entry, options);
    folder.isSetgid = (entry.mode & 0o2000) !== 0;
    folder.mtime = entry.mtime;
  }

  #applyFile(parent: OpenFolder, name: string, entry: TarEntry): void {
    this.#make(parent, name, () => {
      const fd = openSync(at(parent.fd, name), createFlags, entry.mode & 0o777);
      this.#file = { fd, entry, parent };
    });
  }

  #applySymlink(parent: OpenFolder, name: string, entry: TarEntry): void {
    if (entry.linkName === "") throw invalidImage("a link has no target");
    this.#make(parent, name, () => symlinkSync(toPath(entry.linkName), at(parent.fd, name)));
    this.#attributes.ofNewLink(parent, name, entry);
  }

  /** The target is a path in the image, walked like any other, its last step not followed. */
  #applyHardLink(parts: readonly string[], name: string, entry: TarEntry): void {
    const targetParts = splitEntryName(entry.linkName);
    const targetName = targetParts.pop();
    const found = targetName && this.#stack.find(targetParts);
    if (!targetName || !found) throw missingTarget(entry);
    const targetPath = pathIn(found, targetName);
    const targetFolder = reopenFolder(found.fd);
    try {
      const parent = this.#stack.enter(parts);
      const path = pathIn(parent, name);
      this.#keep(path);
      if (targetPath === path) throw invalidImage("a hard link is its own target");
      this.#make(parent, name, () => linkSync(at(targetFolder, targetName), at(parent.fd, name)));
      this.#special.link(targetPath, path);
    } catch (error) {
      if (isSystemError(error, "ENOENT", "EPERM")) throw missingTarget(entry);
      throw error;
    } finally {
      closeFolder(targetFolder);
    }
  }

  /** Makes something new; what has the name goes first. */
  #make(parent: OpenFolder, name: string, make: () => void): void {
    try {
      make();
    } catch (error) {
      if (!isSystemError(error, "EEXIST")) throw error;
      this.#replace(parent, name, make);
    }
  }

  #replace(parent: OpenFolder, name: string, make: () => void): void {
    removeTree(parent.fd, name);
    make();
  }

  #keep(path: string): void {
    if (!this.#isBottom) this.#kept.add(path);
  }
}

function isSpecial({ kind }: TarEntry): boolean {
  return kind === "fifo" || kind === "character-device" || kind === "block-device";
}

function missingTarget(entry: TarEntry): Error {
  const target = JSON.stringify(entry.linkName);
  return unsafeEntry(`it is a hard link to ${target}, which is not a file of the image`);
}

function explain(error: unknown, entry: TarEntry): unknown {
  return within(`entry ${JSON.stringify(entry.name.slice(0, 300))}`, writeFailure(error));
}

/**
 * The parts of a name in an archive. A slash at its start and `.` mean nothing, as with Docker and
 * containerd; `..` is refused, wherever it leads: no builder writes it.
 *
 * @throws {ImageError} code `IMAGE_UNSAFE_ENTRY`
 */
function splitEntryName(name: string): string[] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw unsafeEntry(`${JSON.stringify(name)} climbs with ".."`);
  return parts;
}
