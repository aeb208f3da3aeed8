import path from "node:path";
import { acquireFileLock } from "@kip/base";
import { RecordFolders } from "../host/record-folders.ts";
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
  /** Holds one folder per machine. */
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
      isForGood: false, // no machine outlives a power cut
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

  /** IDs of machines whose record cannot be read, such as one that was cut off by a power cut. */
  async unreadable(): Promise<readonly string[]> {
    return await this.#records.unreadable();
  }

  /** Makes the folder of a new machine. */
  async add(record: MachineRecord): Promise<void> {
    await this.#records.add(record);
  }

  /** Replaces the record of a machine that is there. */
  async update(record: MachineRecord): Promise<void> {
    await this.#records.update(record);
  }

  /** Removes the folder of a machine and all that is in it. */
  async remove(id: string): Promise<void> {
    await this.#records.remove(id);
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
    return await this.#records.lock(id, work);
  }

  async #alone<T>(lock: string, work: () => Promise<T>): Promise<T> {
    await using _lock = await acquireFileLock(path.join(this.#locks, lock));
    return await work();
  }
}
