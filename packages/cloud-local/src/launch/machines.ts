import path from "node:path";
import { CloudError, type Instance } from "@kip/cloud";
import { machineProcesses } from "../machine/machine-process.ts";
import { toInstance, type MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import type { MachineWatch } from "../machine/machine-watch.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import { userOfMachine } from "../qemu/machine-user.ts";
import type { DiskMachine } from "../volume/hot-plug.ts";
import type { MachineTerminator } from "./machine-terminator.ts";

/** What {@link Machines} works with. */
export interface MachinesDependencies {
  readonly options: ResolvedLocalCloudOptions;
  readonly store: MachineStore;
  readonly watch: MachineWatch;
  readonly terminator: MachineTerminator;
}

/** The machines of this owner as they are now: an end that was not noted before is noted when one is looked at. */
export class Machines {
  readonly #context: MachinesDependencies;

  constructor(context: MachinesDependencies) {
    this.#context = context;
  }

  /** The machine of this ID, if it is this owner's and has not ended. */
  async describe(id: string): Promise<Instance | undefined> {
    const record = await this.#own(id);
    return record && (await this.current(record));
  }

  async list(): Promise<readonly Instance[]> {
    const { store, options } = this.#context;
    const own = (await store.readAll()).filter(({ owner }) => owner === options.owner);
    const instances = await Promise.all(own.map((record) => this.current(record)));
    return instances.filter((instance) => instance !== undefined);
  }

  /** The machine of a record; undefined once it has ended. */
  async current(record: MachineRecord): Promise<Instance | undefined> {
    if (record.state === "ended") return undefined;
    if (record.state !== "running" || (await this.isAlive(record))) return toInstance(record);
    await this.#context.terminator.note(record.id, undefined);
    return undefined;
  }

  /** Whether a process of it lives, which is watched from here on. */
  async isAlive(record: MachineRecord): Promise<boolean> {
    if (record.state === "ended" || record.state === "stopping") return false;
    const { store, watch } = this.#context;
    return await watch.add(record.id, store.files(record.id));
  }

  /** Runs with the machine locked; with undefined if it does not run or is not ours. */
  async withRunning<T>(
    id: string,
    work: (record: MachineRecord | undefined) => Promise<T>,
  ): Promise<T> {
    const { store, terminator } = this.#context;
    return await store.lockMachine(id, async () => {
      const record = await this.#own(id);
      if (!record) return await work(undefined);
      if (record.state === "stopping") await terminator.remove(record); // its remover was killed
      return await work((await this.isAlive(record)) ? record : undefined);
    });
  }

  /** A machine as far as its disks need it. */
  disksOf(record: MachineRecord): DiskMachine {
    const { store, options } = this.#context;
    const files = store.files(record.id);
    const { folder, command } = files;
    return {
      folder,
      command,
      processes: machineProcesses(record, files),
      user: userOfMachine(record, options.firstUserId),
      pathInside: (file) => `/${path.relative(folder, file)}`,
    };
  }

  /** @throws {CloudError} `CLOUD_NOT_FOUND` unless it is this owner's, running or ended */
  async requireOwn(action: string, id: string): Promise<void> {
    if (!(await this.#own(id))) throw machineNotFound(action, id);
  }

  async #own(id: string): Promise<MachineRecord | undefined> {
    const { store, options } = this.#context;
    const record = await store.read(id);
    return record?.owner === options.owner ? record : undefined;
  }
}

/** The error for a machine that does not exist, or is another owner's. */
export function machineNotFound(action: string, id: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot ${action} machine "${id}": it does not exist`);
}
