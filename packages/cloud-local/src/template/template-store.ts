import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  acquireFileLock,
  decode,
  LockError,
  readJsonRecord,
  isSystemError,
  systemClock,
} from "@kip/base";
import { endProcessGroup, type ProcessGroup } from "../host/processes.ts";
import { allocatedBytes } from "../machine/machine-process.ts";
import { chooseForRemoval, type StoredTemplate } from "./template-policy.ts";
import { parseTemplateRecord, type TemplateFiles, type TemplateRecord } from "./template-record.ts";

/** Files of a template that is being built. */
export interface DraftFiles extends TemplateFiles {
  readonly console: string;
  readonly control: string;
  readonly command: string;
  readonly pid: string;
  /** Identifies its processes: {@link DraftProcesses}. */
  readonly processes: string;
  readonly log: string;
  /** Socket to which QEMU sends the device state. */
  readonly stateSocket: string;
}

const processesDocument = decode.object({
  uid: decode.integer,
  controlGroup: decode.optional(decode.string),
});

/** Identifies the processes that build a template. Written before there are any. */
export type DraftProcesses = decode.Decoded<typeof processesDocument>;

/** How long a QEMU may take to end on request, milliseconds. */
const endLimitMs = 1000;

/**
 * A folder with one folder per template. A template appears completely by one rename, and disappears by one. Hidden folders
 * (`.draft-…`, `.aside-…`) are not usable.
 */
export class TemplateStore {
  readonly #folder: string;
  readonly #lock: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#lock = path.join(folder, ".lock");
  }

  /**
   * Removes what killed processes have left.
   *
   * @param inUse keys of templates that machines use
   * @param tidy removes what builds have left elsewhere; called while no build can start
   */
  async open(inUse: ReadonlySet<string>, tidy: () => Promise<void>): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await using lock = await this.#lockIfFree();
    if (!lock) return;
    for (const name of await readdir(this.#folder)) {
      if (name.startsWith(".draft-")) await this.removeDraft(name.slice(".draft-".length));
      const [, aside] = /^\.aside-([^.]+)/.exec(name) ?? [];
      if (aside !== undefined && !inUse.has(aside)) await this.#delete(name);
      if (name.startsWith(".removed-")) await this.#delete(name);
    }
    await tidy();
  }

  files(key: string): TemplateFiles {
    return filesIn(path.join(this.#folder, key));
  }

  draft(key: string): DraftFiles {
    const folder = path.join(this.#folder, `.draft-${key}`);
    return {
      ...filesIn(folder),
      console: path.join(folder, "console.log"),
      control: path.join(folder, "qmp.sock"),
      command: path.join(folder, "ctl.sock"),
      pid: path.join(folder, "qemu.pid"),
      processes: path.join(folder, "processes.json"),
      log: path.join(folder, "qemu.log"),
      stateSocket: path.join(folder, "state.sock"),
    };
  }

  /** Takes the lock for building templates, one at a time in all processes. */
  async lock(signal: AbortSignal): Promise<AsyncDisposable> {
    return await acquireFileLock(this.#lock, { signal });
  }

  /** @returns undefined if it does not exist @throws if it cannot be read */
  async read(key: string): Promise<TemplateRecord | undefined> {
    const file = this.files(key).record;
    try {
      return parseTemplateRecord(await readFile(file, "utf8"), file);
    } catch (error) {
      if (!isSystemError(error, "ENOENT")) throw error;
      const hasFolder = await stat(path.dirname(file)).catch(() => undefined);
      if (!hasFolder) return undefined;
      throw error;
    }
  }

  /** The readable templates. */
  async readAll(): Promise<readonly TemplateRecord[]> {
    const found = await Promise.allSettled((await this.#keys()).map((key) => this.read(key)));
    return found
      .map((result) => (result.status === "fulfilled" ? result.value : undefined))
      .filter((record) => record !== undefined);
  }

  /** Writes the record into the folder of a template, whether complete or not. */
  async write(files: TemplateFiles, record: TemplateRecord): Promise<void> {
    await writeFile(`${files.record}.new`, JSON.stringify(record, undefined, 2), { mode: 0o600 });
    await rename(`${files.record}.new`, files.record);
  }

  /** Turns a draft into a template. */
  async publish(key: string): Promise<void> {
    await rename(this.draft(key).folder, this.files(key).folder);
  }

  /** Ends the QEMU that builds a template, and removes the draft. */
  async removeDraft(key: string): Promise<void> {
    await this.endDraft(key);
    await rm(this.draft(key).folder, { recursive: true, force: true });
  }

  /**
   * Ends the QEMU that builds a template, and any processes that it forked.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if one cannot be ended
   */
  async endDraft(key: string): Promise<void> {
    const { pid, processes } = this.draft(key);
    const known = await readProcesses(processes);
    const group: ProcessGroup = { argument: pid, ...known };
    await endProcessGroup(group, endLimitMs);
    await rm(processes, { force: true });
  }

  /** Removes the drafts of killed processes. */
  async removeDrafts(): Promise<void> {
    await using lock = await this.#lockIfFree();
    if (!lock) return;
    for (const name of await readdir(this.#folder))
      if (name.startsWith(".draft-")) await this.removeDraft(name.slice(".draft-".length));
  }

  /** Records that a machine was made from it. */
  async touch(key: string, nowMs: number): Promise<void> {
    await utimes(this.files(key).record, nowMs / 1000, nowMs / 1000);
  }

  /** Takes a template out of use. Removes it, unless a machine's disk is based on it. */
  async setAside(key: string, isInUse: boolean): Promise<void> {
    const name = `.aside-${key}.${process.pid}.${systemClock.now()}`;
    await this.#rename(key, name);
    if (!isInUse) await this.#delete(name);
  }

  /** Removes the templates that were unused for longest. Returns their keys. */
  async collect(inUse: ReadonlySet<string>, limitBytes: number): Promise<readonly string[]> {
    const keys = await this.#keys();
    const stored = await Promise.all(keys.map((key) => this.#describe(key, inUse.has(key))));
    const chosen = chooseForRemoval(stored, limitBytes);
    for (const key of chosen) {
      await this.#rename(key, `.removed-${key}`);
      await this.#delete(`.removed-${key}`);
    }
    return chosen;
  }

  /** @returns undefined if another process is building a template. That process has cleaned up */
  async #lockIfFree(): Promise<AsyncDisposable | undefined> {
    try {
      return await acquireFileLock(this.#lock, { whenHeld: "fail" });
    } catch (error) {
      if (LockError.is(error, "LOCK_HELD")) return undefined;
      throw error;
    }
  }

  async #keys(): Promise<readonly string[]> {
    return (await readdir(this.#folder)).filter((name) => !name.startsWith("."));
  }

  async #describe(key: string, isInUse: boolean): Promise<StoredTemplate> {
    const files = this.files(key);
    const sizes = await Promise.all([files.memory, files.disk, files.state].map(allocatedBytes));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const lastUsedAt = await stat(files.record).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    return { key, bytes, lastUsedAt, isInUse };
  }

  async #rename(from: string, to: string): Promise<void> {
    await this.#delete(to);
    try {
      await rename(path.join(this.#folder, from), path.join(this.#folder, to));
    } catch (error) {
      if (!isSystemError(error, "ENOENT")) throw error; // another process removed it first
    }
  }

  async #delete(name: string): Promise<void> {
    await rm(path.join(this.#folder, name), { recursive: true, force: true });
  }
}

async function readProcesses(file: string): Promise<DraftProcesses | undefined> {
  return await readJsonRecord(file, processesDocument); // undefined: the process that wrote it had not started QEMU
}

function filesIn(folder: string): TemplateFiles {
  return {
    folder,
    record: path.join(folder, "template.json"),
    memory: path.join(folder, "memory"),
    disk: path.join(folder, "disk.qcow2"),
    state: path.join(folder, "state"),
  };
}
