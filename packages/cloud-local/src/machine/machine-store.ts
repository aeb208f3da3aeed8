import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { acquireFileLock, hasCode } from "@kip/base";
import { parseMachineRecord, type MachineRecord } from "./machine-record.ts";

/**
 * Files in a machine's folder. The folder is all that the machine's QEMU sees of the host, as another user; of what is in it,
 * it may do nothing but with the files that it was given open, and with what belongs to that user.
 */
export interface MachineFiles {
  readonly folder: string;
  readonly record: string;
  readonly rootDisk: string;
  readonly seed: string;
  readonly console: string;
  /** QEMU's control socket, for who watches the machine. */
  readonly control: string;
  /** QEMU's control socket for commands: `runCommands`. */
  readonly command: string;
  readonly pid: string;
  /** What QEMU says of failures. */
  readonly log: string;
}

/**
 * The folder with one folder per machine: the only state of the local cloud, shared by all processes
 * that use it.
 *
 * - A machine's folder appears with its record in it, by one rename, and disappears by one rename.
 * - Records change only under {@link MachineStore.lockMachine}; slots are given out only under
 *   {@link MachineStore.lockAll}. Order: machine before all.
 */
export class MachineStore {
  readonly #machines: string;
  readonly #locks: string;

  constructor(stateDir: string) {
    this.#machines = path.join(stateDir, "machines");
    this.#locks = path.join(stateDir, "locks");
  }

  async open(): Promise<void> {
    await mkdir(this.#machines, { recursive: true, mode: 0o700 });
    await mkdir(this.#locks, { recursive: true, mode: 0o700 });
    // What a killed process had not finished making or removing.
    await this.lockAll(async () => {
      for (const name of await readdir(this.#machines)) {
        if (name.startsWith("."))
          await rm(path.join(this.#machines, name), { recursive: true, force: true });
      }
    });
  }

  /** Holds one folder per machine. */
  get folder(): string {
    return this.#machines;
  }

  files(id: string): MachineFiles {
    const folder = path.join(this.#machines, id);
    return {
      folder,
      record: path.join(folder, "machine.json"),
      rootDisk: path.join(folder, "disk.qcow2"),
      seed: path.join(folder, "seed.iso"),
      console: path.join(folder, "console.log"),
      control: path.join(folder, "qmp.sock"),
      command: path.join(folder, "ctl.sock"),
      pid: path.join(folder, "qemu.pid"),
      log: path.join(folder, "qemu.log"),
    };
  }

  async read(id: string): Promise<MachineRecord | undefined> {
    const file = this.files(id).record;
    try {
      return parseMachineRecord(await readFile(file, "utf8"), file);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return undefined;
      throw error;
    }
  }

  async readAll(): Promise<readonly MachineRecord[]> {
    const names = await readdir(this.#machines);
    const records = await Promise.all(
      names.filter((name) => !name.startsWith(".")).map((name) => this.read(name)),
    );
    return records.filter((record) => record !== undefined);
  }

  /** Makes the folder of a new machine. */
  async add(record: MachineRecord): Promise<void> {
    const draft = path.join(this.#machines, `.new-${record.id}`);
    await rm(draft, { recursive: true, force: true });
    await mkdir(draft, { mode: 0o711 });
    await writeDurably(path.join(draft, "machine.json"), record);
    await rename(draft, this.files(record.id).folder);
  }

  /** Replaces the record of a machine that is there. */
  async update(record: MachineRecord): Promise<void> {
    const { record: file } = this.files(record.id);
    await writeDurably(`${file}.new`, record);
    await rename(`${file}.new`, file);
  }

  /** Removes the folder of a machine and all that is in it. */
  async remove(id: string): Promise<void> {
    const { folder } = this.files(id);
    const removed = path.join(this.#machines, `.removed-${id}`);
    await rm(removed, { recursive: true, force: true });
    try {
      await rename(folder, removed);
    } catch (error) {
      if (hasCode(error, "ENOENT")) return;
      throw error;
    }
    await rm(removed, { recursive: true, force: true });
  }

  /** Runs alone among everything that gives out addresses or adds machines, in all processes. */
  async lockAll<T>(work: () => Promise<T>): Promise<T> {
    return await this.#alone("all", work);
  }

  /** Runs alone among everything that changes the network, in all processes. */
  async lockNetwork<T>(work: () => Promise<T>): Promise<T> {
    return await this.#alone("network", work);
  }

  /** Runs alone among everything that changes this machine, in all processes. */
  async lockMachine<T>(id: string, work: () => Promise<T>): Promise<T> {
    // A fixed set of files, so that none is ever removed: removing a lock file under a waiter would
    // give the lock to two. Machines that share a file only wait for each other.
    const stripe = createHash("sha256").update(id).digest("hex").slice(0, 2);
    return await this.#alone(`machine-${stripe}`, work);
  }

  async #alone<T>(lock: string, work: () => Promise<T>): Promise<T> {
    await using _lock = await acquireFileLock(path.join(this.#locks, lock));
    return await work();
  }
}

async function writeDurably(file: string, record: MachineRecord): Promise<void> {
  const handle = await open(file, "w", 0o600);
  try {
    await handle.writeFile(JSON.stringify(record, undefined, 2));
    await handle.sync(); // else a power cut can leave an empty file under the final name
  } finally {
    await handle.close();
  }
}
