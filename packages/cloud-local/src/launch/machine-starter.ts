import { systemClock } from "@kip/base";
import type { LaunchImages } from "@kip/cloud";
import { qemuFor } from "../host/architecture.ts";
import type { LocalImage } from "../host/image.ts";
import type { ResolvedLocalCloudOptions } from "../options/local-cloud-options.ts";
import type { LocalNetwork } from "../network/local-network.ts";
import type { MachineShape } from "../template/template-shape.ts";
import type { Templates } from "../template/templates.ts";
import type { Accelerator } from "../qemu/accelerator.ts";
import { cloneMachine } from "./machine-clone.ts";
import {
  bootMachine,
  endMachineProcess,
  type StartMachineOptions,
} from "../machine/machine-process.ts";
import type { MachineRecord } from "../machine/machine-record.ts";
import type { MachineStore } from "../machine/machine-store.ts";
import { userOfMachine } from "../qemu/machine-user.ts";
import type { MachineWatch } from "../machine/machine-watch.ts";
import { readQemuFacts } from "../qemu/qemu-version.ts";
import { readTail } from "../host/file-text.ts";

/** How much of a failed copy's console is logged, bytes. */
const consoleBytes = 1000;

/** Dependencies of {@link MachineStarter}. */
export interface MachineStarterOptions {
  readonly options: ResolvedLocalCloudOptions;
  readonly store: MachineStore;
  readonly network: LocalNetwork;
  readonly watch: MachineWatch;
  readonly templates: Templates;
}

/** A launch request, and the decisions about it. */
export interface StartRequest {
  readonly record: MachineRecord;
  readonly image: LocalImage;
  readonly accelerator: Accelerator;
  readonly userData: Uint8Array;
  readonly nameservers: readonly string[];
  readonly images?: LaunchImages | undefined;
}

/** Starts machines: as a copy of a template if there is one, and otherwise by booting. */
export class MachineStarter {
  readonly #dependencies: MachineStarterOptions;

  constructor(parts: MachineStarterOptions) {
    this.#dependencies = parts;
  }

  /**
   * Returns when the machine is running. If it is a copy, its agent already listens. Callers hold its lock.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE`
   */
  async start(request: StartRequest): Promise<Pick<MachineRecord, "startedFrom" | "template">> {
    const { options, store, watch, templates } = this.#dependencies;
    const { record } = request;
    const steps = new StartSteps();
    const shape = await this.shape(record, request.image, request.accelerator);
    const files = store.files(record.id);
    const start: StartMachineOptions = {
      ...request,
      files,
      network: this.#dependencies.network,
      qemu: shape.qemu,
      user: userOfMachine(record, options.firstUserId),
      onPaused: async () => await watch.subscribe(record.id, files),
      onStep: steps.done,
    };
    const { images } = request;
    const full = images && { ...shape, images };
    const fullTemplate = full && (await templates.find(full));
    const template = fullTemplate ?? (await templates.find(shape));
    steps.done("template");
    if (template) {
      const failure = await cloneMachine(start, template.files);
      const fields = { instance: record.id, steps, failure };
      options.logger.debug("Machine copied", fields);
      if (failure === undefined) {
        if (full && !fullTemplate) templates.want(full);
        const startedFrom = fullTemplate ? "image-template" : "template";
        return { startedFrom, template: template.key };
      }
      watch.drop(record.id);
      await endMachineProcess(record, files);
      const console = (await readTail(files.console, consoleBytes)).trim();
      await templates.reportFailure(template, failure, console);
    }
    await bootMachine(start);
    options.logger.debug("Machine booted", { instance: record.id, steps });
    templates.want(shape);
    return { startedFrom: "boot" };
  }

  /** The properties that the machine shares with others. */
  async shape(
    size: Pick<MachineShape, "cpus" | "memoryBytes" | "rootDiskBytes">,
    image: LocalImage,
    accelerator: Accelerator,
  ): Promise<MachineShape> {
    const { cpus, memoryBytes, rootDiskBytes } = size;
    const own = this.#dependencies.options.qemu;
    const qemu = await readQemuFacts(qemuFor(image.architecture, own));
    return { image, cpus, memoryBytes, rootDiskBytes, qemu, accelerator };
  }
}

/** Durations of a start's steps, in the order in which they ended. */
class StartSteps {
  readonly #started = systemClock.monotonic();
  readonly #times: [name: string, ms: number][] = [];
  #last = this.#started;

  /** Records that a step has ended and the next one starts. */
  readonly done = (name: string): void => {
    const now = systemClock.monotonic();
    this.#times.push([name, Math.round(now - this.#last)]);
    this.#last = now;
  };

  /** Milliseconds of each step, and of all together. */
  toJSON(): Readonly<Record<string, number>> {
    return { ...Object.fromEntries(this.#times), total: Math.round(this.#last - this.#started) };
  }
}
