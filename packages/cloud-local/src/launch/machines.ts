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

/** Dependencies of {@link Machines}. */
export interface MachinesDependencies {
  readonly options: ResolvedLocalCloudOptions;
  readonly store: MachineStore;
  readonly watch: MachineWatch;
  readonly terminator: MachineTerminator;
}

/** The machines of this owner. Looking at a machine also records its end, if that was not recorded yet. */
export class Machines {
  readonly #context: MachinesDependencies;

  constructor(context: MachinesDependencies) {
    this.#context = context;
  }

  /** The machine with this ID, if it belongs to this owner and has not ended. */
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

  /** The machine for a record. Undefined once it has ended. */
  async current(record: MachineRecord): Promise<Instance | undefined> {
    if (record.state === "ended") return undefined;
    if (record.state !== "running" || (await this.isAlive(record))) return toInstance(record);
    await this.#context.terminator.note(record.id, undefined);
    return undefined;
  }

  /** Whether a process of the machine is alive. From then on it is watched. */
  async isAlive(record: MachineRecord): Promise<boolean> {
    if (record.state === "ended" || record.state === "stopping") return false;
    const { store, watch } = this.#context;
    return await watch.add(record.id, store.files(record.id));
  }

  /** Runs `work` with the machine locked. Passes undefined if it is not running or has another owner. */
  async withRunning<T>(
    id: string,
    work: (record: MachineRecord | undefined) => Promise<T>,
  ): Promise<T> {
    const { store, terminator } = this.#context;
    return await store.lockMachine(id, async () => {
      const record = await this.#own(id);
      if (!record) return await work(undefined);
      if (record.state === "stopping") await terminator.remove(record); // the process that was removing it was killed
      return await work((await this.isAlive(record)) ? record : undefined);
    });
  }

  /** What volumes need to know about a machine. */
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

  /** @throws {CloudError} `CLOUD_NOT_FOUND` unless the machine belongs to this owner, running or ended */
  async requireOwn(action: string, id: string): Promise<void> {
    if (!(await this.#own(id))) throw machineNotFound(action, id);
  }

  async #own(id: string): Promise<MachineRecord | undefined> {
    const { store, options } = this.#context;
    const record = await store.read(id);
    return record?.owner === options.owner ? record : undefined;
  }
}

/** The error for a machine that does not exist or has another owner. */
export function machineNotFound(action: string, id: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot ${action} machine "${id}": it does not exist`);
}
