import { spawnSync } from "node:child_process";
import { constants } from "node:os";
import { limitExceeded, storeFull } from "../errors.ts";
import { specialEntriesScript } from "../gen/scripts.gen.ts";
import type { TarEntry } from "../tar/tar-entry.ts";
import { closeFolder, openFolder } from "./descriptor-path.ts";

/** System call numbers of lsetxattr, llistxattr, lremovexattr and mknodat. */
const calls: Readonly<Record<string, readonly number[]>> = {
  x64: [189, 195, 198, 259],
  arm64: [6, 12, 15, 33],
};

/** Limit for waiting attributes, and for those of one entry, bytes. */
const maxPendingBytes = 1024 * 1024;
/** Memory of a step or a stored name besides its texts, bytes. */
const stepBytes = 100;
/** Limit for folders with attributes and for inherited attributes, which are kept until the image is complete, bytes. */
const maxMarkedBytes = 16 * 1024 * 1024;
/** New entries in a folder inherit this attribute and a mode from it. So it is set after everything else. */
const inheritedAttribute = "system.posix_acl_default";
/** Most special files of an image. Each batch of them needs a new process. */
const maxSpecialFiles = 4096;

const fileTypes = {
  fifo: 0o010000,
  "character-device": 0o020000,
  "block-device": 0o060000,
} as const;

interface Step {
  readonly what: "set" | "clear" | "node";
  /** Real path of the entry, without links. */
  readonly path: string;
  readonly key: string;
  readonly value: string;
}

/** Counts what was left out. */
interface LeftOut {
  devices: number;
  fifos: number;
  readonly xattrs: Map<string, number>;
}

/**
 * Whether an image may set an attribute: user attributes, file capabilities, access lists and `trusted.*`. Not those of
 * overlayfs, with which an image could redirect its own mount, and not the labels of the host's security modules.
 */
export function isTakenAttribute(name: string): boolean {
  if (/^(?:user|trusted)\.overlay\./.test(name) || name.includes("\0")) return false;
  return (
    /^(?:user|trusted)\../.test(name) ||
    name === "security.capability" ||
    name === "system.posix_acl_access" ||
    name === "system.posix_acl_default"
  );
}

/**
 * Extended attributes and special files of a tree that is being written. Node has no call for either. So they are collected,
 * and a child process creates many at once.
 *
 * Invariant: a path in this class refers to the last entry that was written there. When something is written to a path,
 * {@link forget} is called. The child skips a path that leads through something that is no longer a folder.
 */
export class SpecialEntries {
  readonly #root: string;
  readonly #makesDevices: boolean;
  /** Attributes to set, by real path. */
  #attributes = new Map<string, readonly Step[]>();
  #pendingBytes = 0;
  /** Folders with attributes. Another layer's entry for such a folder removes them. */
  readonly #marked = new Set<string>();
  #markedBytes = 0;
  /** Inherited attributes of folders, by real path. */
  readonly #last = new Map<string, Step>();
  /** Special files to create, by real path. All are in one folder, whose time is set when it is left. */
  #nodes = new Map<string, Step>();
  #nodesFolder = "";
  #nodeCount = 0;
  /** Number of programs run so far. Each blocked this process. */
  runs = 0;
  readonly leftOut: LeftOut = { devices: 0, fifos: 0, xattrs: new Map() };

  constructor(root: string, options: { readonly makesDevices: boolean }) {
    this.#root = root;
    this.#makesDevices = options.makesDevices;
  }

  /** Call this when something new was written to a path. */
  forget(path: string): void {
    if (this.#attributes.size > 0) this.#attributes.delete(path);
    if (this.#last.size > 0) this.#last.delete(path);
  }

  /** A file got another link. */
  link(from: string, to: string): void {
    const steps = this.#attributes.get(from);
    this.forget(to);
    const copies = steps?.map((step) => ({ ...step, path: to }));
    if (copies) this.#keep(to, copies);
  }

  /** Stores the attributes of an entry that was just written. */
  describe(path: string, entry: TarEntry): void {
    const steps: Step[] = [];
    if (this.#marked.delete(path)) steps.push({ what: "clear", path, key: "", value: "" });
    for (const [key, value] of entry.xattrs) {
      if (key === inheritedAttribute) {
        this.#hold(path, value.length);
        this.#last.set(path, { what: "set", path, key, value });
      } else if (isTakenAttribute(key)) steps.push({ what: "set", path, key, value });
      else this.#leaveOut(key);
    }
    if (steps.length === 0) return;
    if (entry.kind === "directory") {
      this.#hold(path, 0);
      this.#marked.add(path);
    }
    this.#keep(path, steps);
  }

  #hold(path: string, more: number): void {
    this.#markedBytes += stepBytes + path.length + more;
    if (this.#markedBytes <= maxMarkedBytes) return;
    throw limitExceeded("bytes of names of folders with attributes", maxMarkedBytes);
  }

  #keep(path: string, steps: readonly Step[]): void {
    this.#attributes.set(path, steps);
    for (const { key, value } of steps) {
      this.#pendingBytes += stepBytes + path.length + key.length + value.length;
    }
  }

  /**
   * Creates a special file in place of whatever has its name. False if special files are not wanted.
   *
   * @param folder the entry's folder, as in {@link settle}
   */
  makeNode(folder: string, path: string, entry: TarEntry): boolean {
    if (entry.kind !== "fifo" && !this.#makesDevices) {
      this.leftOut.devices++;
      return false;
    }
    if (++this.#nodeCount > maxSpecialFiles) throw limitExceeded("special files", maxSpecialFiles);
    const { kind, device } = entry;
    const type = fileTypes[kind as keyof typeof fileTypes]; // checked by the caller
    this.#nodes.set(path, {
      what: "node",
      path,
      key: `${type | entry.mode} ${numberOf(device)}`,
      value: `${entry.uid} ${entry.gid} ${Math.trunc(entry.mtime)}`,
    });
    this.#nodesFolder = folder;
    return true;
  }

  /**
   * Runs the collected steps if there are many, or if there are special files in another folder. Call this before an entry is
   * written, but not earlier: writing a file's content or owner removes capabilities that were set before.
   *
   * @param folder folder of the entry if it is a special file
   */
  settle(folder?: string): void {
    const isElsewhere = this.#nodes.size > 0 && folder !== this.#nodesFolder;
    if (isElsewhere || this.#pendingBytes > maxPendingBytes) this.flush();
  }

  /** Runs all collected steps. */
  flush(): void {
    const steps = [...this.#nodes.values(), ...[...this.#attributes.values()].flat()];
    this.#nodes = new Map();
    this.#attributes = new Map();
    this.#pendingBytes = 0;
    if (steps.length > 0) this.#run(steps);
  }

  /** Runs the final steps, after the last entry. */
  finish(): void {
    this.flush();
    if (this.#last.size > 0) this.#run([...this.#last.values()]);
  }

  #run(steps: readonly Step[]): void {
    this.runs++;
    const numbers = calls[process.arch];
    const root = openFolder(this.#root);
    try {
      const child = spawnSync(
        "/usr/bin/perl",
        ["-e", specialEntriesScript, ...(numbers ?? []).map(String)],
        {
          input: Buffer.concat(steps.map(encode)),
          stdio: ["pipe", "pipe", "pipe", root],
          env: {},
          maxBuffer: 64 * 1024 * 1024,
        },
      );
      if (numbers === undefined || child.error || child.status !== 0) {
        for (const step of steps) this.#failed(step);
        return;
      }
      for (const line of child.stdout.toString("latin1").split("\n")) {
        const [index = "", errno = ""] = line.split(" ");
        const step = steps[Number(index)];
        if (line !== "" && step) this.#failed(step, Number(errno));
      }
    } finally {
      closeFolder(root);
    }
  }

  #failed(step: Step, errno?: number): void {
    if (errno === constants.errno.ENOSPC || errno === constants.errno.EDQUOT) {
      throw storeFull();
    }
    if (step.what === "set") this.#leaveOut(step.key);
    if (step.what !== "node") return;
    const isFifo = (Number(step.key.split(" ")[0]) & 0o170000) === fileTypes.fifo;
    this.leftOut[isFifo ? "fifos" : "devices"]++;
  }

  #leaveOut(name: string): void {
    const shown = name.slice(0, 100);
    const { xattrs } = this.leftOut;
    if (xattrs.size < 100 || xattrs.has(shown)) xattrs.set(shown, (xattrs.get(shown) ?? 0) + 1);
  }
}

function encode({ what, path, key, value }: Step): Buffer {
  const slash = path.lastIndexOf("/");
  const folder = slash === -1 ? "" : path.slice(0, slash);
  const fields = [what, folder, path.slice(slash + 1), key, value];
  return Buffer.concat(
    fields.flatMap((field) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(field.length);
      return [length, Buffer.from(field, "latin1")];
    }),
  );
}

/** A device's numbers in the kernel's form (`new_encode_dev`). */
function numberOf({ major, minor }: TarEntry["device"]): number {
  return ((minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12)) >>> 0;
}
