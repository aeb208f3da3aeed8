import { errorText, isSystemError } from "@kip/base";
import type { Instance } from "@kip/cloud";
import type { Admission } from "../admission/admission.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { LocalVolumes } from "../volume/local-volumes.ts";
import { controlGroupPath } from "../host/control-group.ts";
import { endMachineProcess, freeMachine } from "../machine/machine-process.ts";
import { machineGroupName, toInstance, type MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import type { MachineWatch } from "../machine/machine-watch.ts";

/** How long the console of a machine that ended by itself is kept, milliseconds. */
const endedKeptMs = 60 * 60 * 1000;

/** Dependencies of {@link MachineTerminator}. */
export interface MachineTerminatorDependencies {
  readonly options: ResolvedLocalCloudOptions;
  readonly store: MachineStore;
  readonly network: LocalNetwork;
  readonly watch: MachineWatch;
  readonly admission: Admission;
  readonly volumes: LocalVolumes;
}

/**
 * Ends machines on request, and frees the resources of machines that ended by themselves, or whose launch or removal was
 * interrupted.
 */
export class MachineTerminator {
  readonly #context: MachineTerminatorDependencies;
  readonly #listeners = new Set<(instance: Instance) => void>();
  /** Ends that this process has reported, by ID and launch time. */
  readonly #reported = new Set<string>();
  /** QEMU's reasons for machines that had not ended when they were received, by the same keys. */
  readonly #reasons = new Map<string, string>();

  constructor(context: MachineTerminatorDependencies) {
    this.#context = context;
  }

  /** Calls back for each of this owner's machines that ends by itself. Returns a function that unsubscribes. */
  listen(callback: (instance: Instance) => void): () => void {
    this.#listeners.add(callback);
    return () => void this.#listeners.delete(callback);
  }

  /** Removes all listeners. */
  close(): void {
    this.#listeners.clear();
  }

  /** Removes a machine completely. The caller holds its lock. A second call completes an interrupted one. */
  async remove(record: MachineRecord): Promise<void> {
    const { store, watch, admission } = this.#context;
    await this.#noteRemoval(record);
    watch.drop(record.id);
    await this.#free(record);
    await store.remove(record.id);
    watch.settle(record.id);
    await admission.ended(record.id);
  }

  /** Ends a machine of any owner, if it exists. */
  async terminate(id: string): Promise<void> {
    const { store, options } = this.#context;
    await store.lockMachine(id, async () => {
      const record = await store.read(id);
      if (!record) return;
      await this.remove(record);
      options.logger.info("Machine terminated", { instance: id, cell: record.name });
    });
  }

  /** Completes an interrupted removal, and removes the rest of a machine that ended long ago. */
  async clear({ id, state, endedAt }: MachineRecord): Promise<void> {
    const { store, options } = this.#context;
    const isOld = endedAt !== undefined && endedAt + endedKeptMs < options.clock.now();
    if (state !== "stopping" && !isOld) return;
    await store.lockMachine(id, async () => {
      const record = await store.read(id);
      if (record?.state === "stopping" || (isOld && record?.state === "ended"))
        await this.remove(record);
    });
  }

  /**
   * Removes machines with unreadable records. Their owners are unknown, and every launch would fail. Their users and addresses
   * are not reused while they run.
   */
  async removeUnreadable(): Promise<void> {
    const { store, options } = this.#context;
    for (const id of await store.unreadable()) {
      await store.lockMachine(id, async () => {
        const reason = await store.read(id).then(
          () => undefined,
          (error: unknown) => errorText(error),
        );
        if (reason === undefined) return; // another process removed it first
        const controlGroup = await controlGroupPath(machineGroupName(options, id));
        await endMachineProcess(
          controlGroup === undefined ? {} : { controlGroup },
          store.files(id),
        );
        await store.remove(id);
        options.logger.error("Machine removed: its record could not be read", {
          instance: id,
          err: reason,
        });
      });
    }
  }

  /** Removes a machine if its launch was interrupted. Its user data is gone together with the killed process. */
  async removeInterrupted(id: string): Promise<boolean> {
    const { store, options } = this.#context;
    // A launch under way holds the lock, in any process.
    return await store.lockMachine(id, async () => {
      const record = await store.read(id);
      if (record?.owner !== options.owner || record.state !== "starting") return false;
      await this.remove(record);
      return true;
    });
  }

  /**
   * Records that a machine has ended, if it has: by itself, or because another process has terminated it.
   *
   * @param reason QEMU's reason
   */
  async note(id: string, reason: string | undefined): Promise<void> {
    const { watch, admission, options } = this.#context;
    const ended = await this.#freeIfEnded(id, reason);
    if (ended === "alive") return;
    watch.settle(id);
    await admission.ended(id);
    if (!ended || this.#reported.has(lifeOf(ended))) return;
    this.#reported.add(lifeOf(ended));
    options.logger.info("Machine ended by itself", { instance: id, reason: ended.stateReason });
    for (const listener of this.#listeners) this.#notify(listener, toInstance(ended));
  }

  async #freeIfEnded(
    id: string,
    reason: string | undefined,
  ): Promise<MachineRecord | "alive" | undefined> {
    const { store, watch, options } = this.#context;
    return await store.lockMachine(id, async () => {
      const record = await store.read(id);
      if (record?.state === "stopping") await this.remove(record); // the process that was removing it was killed
      if (record?.state === "ended") return record; // another process was first
      if (record?.state !== "running") return undefined;
      // Started again in the meantime, or about to end. A killed process accepts connections for a moment.
      if (await watch.add(id, store.files(id))) {
        if (reason !== undefined) this.#reasons.set(lifeOf(record), reason);
        return "alive";
      }
      await this.#free(record);
      const ended = {
        ...record,
        state: "ended",
        stateReason: describeEnd(reason ?? this.#reasons.get(lifeOf(record))),
        endedAt: options.clock.now(),
      } as const;
      await store.update(ended); // the last step, so that readers find everything freed
      return ended;
    });
  }

  /** Ends the machine's process and frees everything except its record and console. */
  async #free(record: MachineRecord): Promise<void> {
    const { store, network, volumes } = this.#context;
    const files = store.files(record.id);
    await endMachineProcess(record, files);
    await freeMachine(record, files, network);
    // The last step, because it writes. If the disk was full, there is space now.
    await volumes.detachAll(record.id);
  }

  /** Lets other processes complete the removal if this one is killed. */
  async #noteRemoval(record: MachineRecord): Promise<void> {
    if (record.state === "stopping") return;
    try {
      await this.#context.store.update({ ...record, state: "stopping" });
    } catch (error) {
      // The removal frees disk space. Until it is complete, the machine appears as ended.
      if (!isSystemError(error, "ENOSPC", "EDQUOT")) throw error;
    }
  }

  #notify(listener: (instance: Instance) => void, instance: Instance): void {
    try {
      listener(instance);
    } catch (error) {
      this.#context.options.logger.error("Listener failed", { err: errorText(error) });
    }
  }
}

function lifeOf({ id, launchedAt }: MachineRecord): string {
  return `${id} ${launchedAt}`;
}

/** QEMU's reason for the end of a machine, as a sentence. */
function describeEnd(reason: string | undefined): string {
  switch (reason) {
    case "guest-shutdown":
      return "The machine switched itself off";
    case "guest-reset":
      return "The machine restarted or its kernel stopped";
    case "guest-panic":
      return "The machine's kernel stopped";
    case "host-signal":
    case "host-qmp-quit":
      return "The machine was ended from outside";
    default:
      return "The machine's process ended";
  }
}
