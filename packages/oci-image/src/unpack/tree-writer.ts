import { randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
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
import { isFolder, removalSteps, removeTree } from "./remove-tree.ts";
import { SpecialEntries } from "./special-entries.ts";
import { hideContent, hideName, LayerPaths, parseWhiteout, type Whiteout } from "./whiteouts.ts";

const createFlags =
  constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** How many files an entry removes before other work gets its turn. */
const hidingSteps = 500;

/**
 * Applies layers to one folder, bottom first. Whiteouts become deletions.
 *
 * Invariants: every change is made directly inside an open folder ({@link FolderStack}). Anything that blocks an entry is
 * removed, and never written through. Content is only written to a file that the same entry created.
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
        /** Offset of the next piece. Absent before the first hole. */
        position?: number;
      }
    | undefined;
  readonly #special: SpecialEntries;
  #holes = 0;
  /** What is left of a whiteout or of a replaced folder that removes much. Its folder stays open until the next entry. */
  #hiding: { readonly steps: Generator<void, void, void>; readonly entry: TarEntry } | undefined;

  /** @param root an empty folder that no one else writes to */
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

  /** What was left out so far, one sentence each. */
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

  /** Number of programs run for special files and attributes. Each blocked this process. */
  get runs(): number {
    return this.#special.runs;
  }

  /** Whether the last entry still has something to remove, as a whiteout or where it replaces a folder. */
  get isHiding(): boolean {
    return this.#hiding !== undefined;
  }

  /**
   * Continues with that, up to {@link hidingSteps} files. Optional, so that other work gets its turn in between: the next
   * entry does the rest.
   */
  hideMore(): void {
    this.#hide(hidingSteps);
  }

  /** Ends a layer. The next entries belong to the layer above. */
  nextLayer(): void {
    this.#hide();
    this.#special.flush();
    this.#kept.clear();
    this.#isBottom = false;
  }

  /** Ends the image. Call it after the last layer. */
  finish(): void {
    this.#special.finish();
  }

  entry(entry: TarEntry): void {
    this.#hide();
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
    // A hole needs no disk space, but reading it takes time.
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
    this.#hiding?.steps.return();
    this.#hiding = undefined;
    this.#stack[Symbol.dispose]();
  }

  #count(): void {
    if (++this.#entries > this.#limits.entries) {
      throw limitExceeded("entries", this.#limits.entries);
    }
  }

  /** Records that something new is at a real path. */
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
    if (whiteout) return this.#applyWhiteout(whiteout, parts, entry);
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
        this.#clear(parent, base, entry);
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

  #applyWhiteout(whiteout: Whiteout, parts: readonly string[], entry: TarEntry): void {
    if (this.#isBottom || whiteout.kind === "aufs") return;
    // Builders write whiteouts for the old content of a folder that is now a link. They do not apply to the link's target.
    const folder = this.#stack.find(parts, (path) => !this.#kept.has(path));
    if (!folder) return;
    const { fd, path } = folder;
    const steps =
      whiteout.kind === "opaque"
        ? hideContent(fd, path, this.#kept)
        : hideName(fd, path, whiteout.name, this.#kept);
    this.#hiding = { steps, entry };
    this.#hide(hidingSteps);
  }

  #hide(most = Number.POSITIVE_INFINITY): void {
    const hiding = this.#hiding;
    if (!hiding) return;
    this.#hiding = undefined;
    try {
      for (let count = 0; count < most; count++) if (hiding.steps.next().done === true) return;
    } catch (error) {
      throw explain(error, hiding.entry);
    }
    this.#hiding = hiding;
  }

  #applyFolder(parent: OpenFolder, name: string, entry: TarEntry): void {
    let isNew = true;
    const make = (): void => mkdirSync(at(parent.fd, name), entry.mode & 0o777);
    try {
      make();
    } catch (error) {
      if (!isSystemError(error, "EEXIST")) throw error;
      isNew = !isFolder(parent.fd, name);
      if (isNew) {
        removeTree(parent.fd, name);
        make();
      }
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
    const make = (): void => {
      const fd = openSync(at(parent.fd, name), createFlags, entry.mode & 0o777);
      this.#file = { fd, entry, parent };
    };
    this.#make(make, () => this.#clear(parent, name, entry));
  }

  #applySymlink(parent: OpenFolder, name: string, entry: TarEntry): void {
    if (entry.linkName === "") throw invalidImage("a link has no target");
    const make = (): void => symlinkSync(toPath(entry.linkName), at(parent.fd, name));
    this.#make(make, () => this.#clear(parent, name, entry));
    this.#attributes.ofNewLink(parent, name, entry);
  }

  /** The target is a path in the image. It is resolved like any other, but a link in its last component is not followed. */
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
      const make = (): void => linkSync(at(targetFolder, targetName), at(parent.fd, name));
      // All at once, because the target may be in what is removed.
      this.#make(make, () => removeTree(parent.fd, name));
      this.#special.link(targetPath, path);
    } catch (error) {
      if (isSystemError(error, "ENOENT", "EPERM")) throw missingTarget(entry);
      throw error;
    } finally {
      closeFolder(targetFolder);
    }
  }

  /** Creates something, after removing whatever has the name. */
  #make(make: () => void, clear: () => void): void {
    try {
      make();
    } catch (error) {
      if (!isSystemError(error, "EEXIST")) throw error;
      clear();
      make();
    }
  }

  /** Makes a name free. A folder gets another name first, because its removal may take several turns. */
  #clear(parent: OpenFolder, name: string, entry: TarEntry): void {
    if (!isFolder(parent.fd, name)) return removeTree(parent.fd, name);
    const aside = randomUUID();
    renameSync(at(parent.fd, name), at(parent.fd, aside));
    this.#hiding = { steps: removalSteps(parent.fd, aside), entry };
    this.#hide(hidingSteps);
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
 * The components of a name in an archive. A leading slash and `.` are ignored, as in Docker and containerd. `..` is refused
 * everywhere, because no builder writes it.
 *
 * @throws {ImageError} code `IMAGE_UNSAFE_ENTRY`
 */
function splitEntryName(name: string): string[] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw unsafeEntry(`${JSON.stringify(name)} climbs with ".."`);
  return parts;
}
