import path from "node:path";
import { acquireFileLock } from "@kip/base";
import { RecordFolders } from "../host/record-folders.ts";
import { parseMachineRecord, type MachineRecord } from "./machine-record.ts";

/**
 * Files in a machine's folder. Its QEMU, which runs as another user, sees no other part of the host. In this folder it can only
 * use the files that it was given open, and those that belong to its user.
 */
export interface MachineFiles {
  readonly folder: string;
  readonly record: string;
  readonly rootDisk: string;
  readonly seed: string;
  readonly console: string;
  /** QEMU's control socket for watching the machine. */
  readonly control: string;
  /** QEMU's control socket for commands, see `runCommands`. */
  readonly command: string;
  readonly pid: string;
  /** QEMU's messages about failures. */
  readonly log: string;
}

/**
 * A folder with one folder per machine. It is the local cloud's only state, and all processes share it.
 *
 * - A machine's folder is created with its record in it by one rename, and removed by one rename.
 * - Records change only under {@link MachineStore.lockMachine}. Slots are assigned only under {@link MachineStore.lockAll}.
 *   Order of locks: first the machine's, then the one for all.
 */
export class MachineStore {
  /** Folder with one folder per machine. */
  readonly folder: string;
  readonly #locks: string;
  readonly #records: RecordFolders<MachineRecord>;

  constructor(stateDir: string) {
    this.folder = path.join(stateDir, "machines");
    this.#locks = path.join(stateDir, "locks");
    this.#records = new RecordFolders({
      folder: this.folder,
      locks: this.#locks,
      name: "machine",
      isForGood: false, // no machine outlives a power failure
      parse: parseMachineRecord,
    });
  }

  async open(): Promise<void> {
    await this.#records.open();
  }

  files(id: string): MachineFiles {
    const folder = this.#records.folderOf(id);
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
    return await this.#records.read(id);
  }

  async readAll(): Promise<readonly MachineRecord[]> {
    return await this.#records.readAll();
  }

  /** IDs of machines with unreadable records, for example after a power failure. */
  async unreadable(): Promise<readonly string[]> {
    return await this.#records.unreadable();
  }

  /** Creates the folder of a new machine. */
  async add(record: MachineRecord): Promise<void> {
    await this.#records.add(record);
  }

  /** Replaces the record of an existing machine. */
  async update(record: MachineRecord): Promise<void> {
    await this.#records.update(record);
  }

  /** Removes a machine's folder and its content. */
  async remove(id: string): Promise<void> {
    await this.#records.remove(id);
  }

  /** Runs `work` while no other process assigns addresses or adds machines. */
  async lockAll<T>(work: () => Promise<T>): Promise<T> {
    return await this.#alone("all", work);
  }

  /** Runs `work` while no other process changes the network. */
  async lockNetwork<T>(work: () => Promise<T>): Promise<T> {
    return await this.#alone("network", work);
  }

  /** Runs `work` while no other process changes this machine. */
  async lockMachine<T>(id: string, work: () => Promise<T>): Promise<T> {
    return await this.#records.lock(id, work);
  }

  async #alone<T>(lock: string, work: () => Promise<T>): Promise<T> {
    await using _lock = await acquireFileLock(path.join(this.#locks, lock));
    return await work();
  }
}
