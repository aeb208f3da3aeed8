import { spawnSync } from "node:child_process";
import { constants } from "node:os";
import { limitExceeded, storeFull } from "../errors.ts";
import { specialEntriesScript } from "../gen/scripts.gen.ts";
import type { TarEntry } from "../tar/tar-entry.ts";
import { closeFolder, openFolder } from "./descriptor-path.ts";

/** Numbers of lsetxattr, llistxattr, lremovexattr and mknodat. */
const calls: Readonly<Record<string, readonly number[]>> = {
  x64: [189, 195, 198, 259],
  arm64: [6, 12, 15, 33],
};

/** Attributes that wait in memory are at most so many bytes, and those of one entry. */
const maxPendingBytes = 1024 * 1024;
/** What a step, or a name that is held, costs beside its texts. */
const stepBytes = 100;
/** Folders with attributes, and what is set last, bytes: they are held until the image is whole. */
const maxMarkedBytes = 16 * 1024 * 1024;
/** What is made in a folder takes this over, and a mode from it: it is set when everything has been made. */
const inheritedAttribute = "system.posix_acl_default";
/** Special files of an image; each run of them costs the start of a process. */
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

/** Counts of what was left out. */
interface LeftOut {
  devices: number;
  fifos: number;
  readonly xattrs: Map<string, number>;
}

/**
 * Which attributes an image may set: its users' own, file capabilities, access lists and `trusted.*`;
 * never those that steer overlayfs, which would let an image redirect its own mount, and never the
 * labels of the host's security modules.
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
 * Extended attributes and special files of a tree that is being written. Node has no call for
 * either, so they are collected and made by a child, many at once.
 *
 * Invariant: a path in here stands for the last entry that was written to it. Writers to a
 * path call {@link forget}, and a path that leads through something that is no longer a folder
 * is passed over by the child.
 */
export class SpecialEntries {
  readonly #root: string;
  readonly #makesDevices: boolean;
  /** Attributes to set, by real path. */
  #attributes = new Map<string, readonly Step[]>();
  #pendingBytes = 0;
  /** Folders that got attributes: another layer's entry for one takes them away. */
  readonly #marked = new Set<string>();
  #markedBytes = 0;
  /** Inherited attributes of folders, by real path. */
  readonly #last = new Map<string, Step>();
  /** Special files to make, by real path; all in one folder, whose time is set when it is left. */
  #nodes = new Map<string, Step>();
  #nodesFolder = "";
  #nodeCount = 0;
  /** Programs that have run so far, each while everything else in this process stood still. */
  runs = 0;
  readonly leftOut: LeftOut = { devices: 0, fifos: 0, xattrs: new Map() };

  constructor(root: string, options: { readonly makesDevices: boolean }) {
    this.#root = root;
    this.#makesDevices = options.makesDevices;
  }

  /** Something new is at a path. */
  forget(path: string): void {
    if (this.#attributes.size > 0) this.#attributes.delete(path);
    if (this.#last.size > 0) this.#last.delete(path);
  }

  /** A second name of a file. */
  link(from: string, to: string): void {
    const steps = this.#attributes.get(from);
    this.forget(to);
    const copies = steps?.map((step) => ({ ...step, path: to }));
    if (copies) this.#keep(to, copies);
  }

  /** The attributes of an entry that was just written. */
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
   * A special file; whatever had its name is gone. False if it is not wanted.
   * @param folder the entry's folder, as in {@link settle}
   */
  makeNode(folder: string, path: string, entry: TarEntry): boolean {
    if (entry.kind !== "fifo" && !this.#makesDevices) {
      this.leftOut.devices++;
      return false;
    }
    if (++this.#nodeCount > maxSpecialFiles) throw limitExceeded("special files", maxSpecialFiles);
    const { kind, device } = entry;
    const type = fileTypes[kind as keyof typeof fileTypes]; // the caller's switch
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
   * Makes what waits if it is much, or special files of another folder: to be called before an entry is
   * written. No sooner: content and owner that a file gets after its attributes take its capabilities away.
   *
   * @param folder of the entry if it is a special file
   */
  settle(folder?: string): void {
    const isElsewhere = this.#nodes.size > 0 && folder !== this.#nodesFolder;
    if (isElsewhere || this.#pendingBytes > maxPendingBytes) this.flush();
  }

  /** Does all that waits. */
  flush(): void {
    const steps = [...this.#nodes.values(), ...[...this.#attributes.values()].flat()];
    this.#nodes = new Map();
    this.#attributes = new Map();
    this.#pendingBytes = 0;
    if (steps.length > 0) this.#run(steps);
  }

  /** Does what comes last: no entry follows. */
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

/** The kernel's form of a device's numbers (`new_encode_dev`). */
function numberOf({ major, minor }: TarEntry["device"]): number {
  return ((minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12)) >>> 0;
}
