import {
  checkLaunchRequest,
  CloudError,
  type Instance,
  type InstanceTypeOffer,
  type LaunchRequest,
} from "@kip/cloud";
import type { Admission, Turn } from "../admission/admission.ts";
import { readImage } from "../host/image.ts";
import { toInstance, type MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { SharedNetwork } from "../network/shared-network.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import type { AcceleratorChoice } from "../qemu/accelerator.ts";
import { machineId, reserveMachine } from "./machine-reservation.ts";
import type { MachineStarter } from "./machine-starter.ts";
import type { MachineTerminator } from "./machine-terminator.ts";
import type { Machines } from "./machines.ts";

/** Dependencies of {@link Launcher}. */
export interface LauncherDependencies {
  readonly options: ResolvedLocalCloudOptions;
  readonly offers: readonly InstanceTypeOffer[];
  readonly store: MachineStore;
  readonly network: LocalNetwork;
  readonly sharedNetwork: SharedNetwork;
  readonly admission: Admission;
  readonly accelerator: AcceleratorChoice;
  readonly starter: MachineStarter;
  readonly machines: Machines;
  readonly terminator: MachineTerminator;
}

/** Launches machines: each when it is its turn, with its lock held, and once per token. */
export class Launcher {
  readonly #context: LauncherDependencies;

  constructor(context: LauncherDependencies) {
    this.#context = context;
  }

  /** @see CloudDriver.launch */
  async launch(request: LaunchRequest, signal: AbortSignal | undefined): Promise<Instance> {
    signal?.throwIfAborted();
    checkLaunchRequest(request);
    const { options, admission, store, machines } = this.#context;
    const id = machineId(options.owner, request.token);
    const launchInTurn = async (turn: Turn): Promise<Instance> => {
      const known = await store.read(id);
      // A machine that was still starting may not have been allowed to run, so it is started again.
      if (known?.state === "running" && (await machines.isAlive(known))) return toInstance(known);
      signal?.throwIfAborted();
      return await this.#start(known, request, turn);
    };
    return await admission.inTurn(
      request,
      signal,
      async (turn) => await store.lockMachine(id, async () => await launchInTurn(turn)),
    );
  }

  /** Starts a machine that is not running. `known` is the record of an earlier start. */
  async #start(
    known: MachineRecord | undefined,
    request: LaunchRequest,
    turn: Turn,
  ): Promise<Instance> {
    const { options, offers, store, network, sharedNetwork, starter, terminator } = this.#context;
    const image = await readImage(options.imagesDir, request.image);
    const accelerator = await this.#context.accelerator.get(image.architecture);
    await sharedNetwork.ensure();
    if (known) await terminator.remove(known);
    const reservation = { options, store, plan: network.plan, offers, turn };
    const record = await reserveMachine(reservation, request, image);
    try {
      const { userData, images } = request;
      const nameservers = await network.nameservers();
      const asked = { record, image, accelerator, userData, nameservers, images };
      const started = await starter.start(asked);
      const instance = await this.#confirmRunning({ ...record, ...started });
      turn.isRunning(store.files(record.id), started.startedFrom);
      return instance;
    } catch (error) {
      await terminator.remove(record);
      throw error;
    }
  }

  /** Records that the machine is running. The caller holds its lock. */
  async #confirmRunning(record: MachineRecord): Promise<Instance> {
    const { machines, store, options } = this.#context;
    if (!(await machines.isAlive(record))) {
      throw new CloudError(
        "CLOUD_UNAVAILABLE",
        `Cannot start machine "${record.name}": it ended at once`,
      );
    }
    const running = { ...record, state: "running" } as const;
    await store.update(running);
    options.logger.info("Machine started", {
      instance: record.id,
      cell: record.name,
      instanceType: record.instanceType,
      address: record.managementIp,
      startedFrom: record.startedFrom,
    });
    return toInstance(running);
  }
}
