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

/** What a template that is being made has besides its files. */
export interface DraftFiles extends TemplateFiles {
  readonly console: string;
  readonly control: string;
  readonly command: string;
  readonly pid: string;
  /** What its processes are known by: {@link DraftProcesses}. */
  readonly processes: string;
  readonly log: string;
  /** QEMU sends the devices' state here. */
  readonly stateSocket: string;
}

const processesDocument = decode.object({
  uid: decode.integer,
  controlGroup: decode.optional(decode.string),
});

/** What the processes that make a template are known by; written before there is one. */
export type DraftProcesses = decode.Decoded<typeof processesDocument>;

/** How long a QEMU may take to end after it was asked to. */
const endLimitMs = 1000;

/**
 * The folder with one folder per template. A template appears whole, by one rename, and disappears by one; what
 * is hidden (`.draft-…`, `.aside-…`) is of no use to anybody.
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
   * @param inUse keys of templates that machines stand on
   * @param tidy removes what builds have left elsewhere; called while none can begin
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

  /** Takes the right to make a template: one at a time, in all processes. */
  async lock(signal: AbortSignal): Promise<AsyncDisposable> {
    return await acquireFileLock(this.#lock, { signal });
  }

  /** @returns undefined if there is none @throws if what is there cannot be read */
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

  /** Templates that can be read. */
  async readAll(): Promise<readonly TemplateRecord[]> {
    const found = await Promise.allSettled((await this.#keys()).map((key) => this.read(key)));
    return found
      .map((result) => (result.status === "fulfilled" ? result.value : undefined))
      .filter((record) => record !== undefined);
  }

  /** Writes the record into a folder of a template, finished or not. */
  async write(files: TemplateFiles, record: TemplateRecord): Promise<void> {
    await writeFile(`${files.record}.new`, JSON.stringify(record, undefined, 2), { mode: 0o600 });
    await rename(`${files.record}.new`, files.record);
  }

  /** Makes a template of a draft. */
  async publish(key: string): Promise<void> {
    await rename(this.draft(key).folder, this.files(key).folder);
  }

  /** Ends the QEMU that makes a template and removes what it has made. */
  async removeDraft(key: string): Promise<void> {
    await this.endDraft(key);
    await rm(this.draft(key).folder, { recursive: true, force: true });
  }

  /**
   * Ends the QEMU that makes a template, and what it may have forked.
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

  /** Removes what killed processes had begun to make. */
  async removeDrafts(): Promise<void> {
    await using lock = await this.#lockIfFree();
    if (!lock) return;
    for (const name of await readdir(this.#folder))
      if (name.startsWith(".draft-")) await this.removeDraft(name.slice(".draft-".length));
  }

  /** A machine was made of it. */
  async touch(key: string, nowMs: number): Promise<void> {
    await utimes(this.files(key).record, nowMs / 1000, nowMs / 1000);
  }

  /** Takes a template out of use; removes it unless a machine's disk stands on it. */
  async setAside(key: string, isInUse: boolean): Promise<void> {
    const name = `.aside-${key}.${process.pid}.${systemClock.now()}`;
    await this.#rename(key, name);
    if (!isInUse) await this.#delete(name);
  }

  /** Removes the templates that were not used for longest; returns their keys. */
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

  /** @returns undefined if another process makes a template; it has tidied up */
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
      if (!isSystemError(error, "ENOENT")) throw error; // another process was first
    }
  }

  async #delete(name: string): Promise<void> {
    await rm(path.join(this.#folder, name), { recursive: true, force: true });
  }
}

async function readProcesses(file: string): Promise<DraftProcesses | undefined> {
  return await readJsonRecord(file, processesDocument); // none: its writer had not started QEMU
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
