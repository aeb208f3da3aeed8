import path from "node:path";
import {
  checkLaunchRequest,
  CloudError,
  type Instance,
  type InstanceTypeOffer,
  type LaunchRequest,
  type NetworkFacts,
  type Volume,
  type VolumeRequest,
} from "@kip/cloud";
import { Admission, type Turn } from "./admission/admission.ts";
import { localInstanceTypes } from "./host/catalog.ts";
import { findImage, readImage } from "./host/image.ts";
import type { LocalCloud } from "./local-cloud.ts";
import type { ResolvedLocalCloudOptions } from "./options/local-cloud-options.ts";
import { AcceleratorChoice } from "./qemu/accelerator.ts";
import { keepConsolesShort } from "./machine/console-size.ts";
import { growRootDisk } from "./launch/grow-root-disk.ts";
import { MachineTerminator } from "./launch/machine-terminator.ts";
import { MachineWatch } from "./machine/machine-watch.ts";
import { machineProcesses } from "./machine/machine-process.ts";
import { toInstance, type MachineRecord } from "./machine/machine-record.ts";
import {
  findOffer,
  machineId,
  machineSize,
  readRoom,
  reserveMachine,
} from "./launch/machine-reservation.ts";
import { MachineStarter } from "./launch/machine-starter.ts";
import { MachineStore } from "./machine/machine-store.ts";
import { userOfMachine } from "./qemu/machine-user.ts";
import { LocalNetwork } from "./network/local-network.ts";
import { NetworkWatch } from "./network/network-watch.ts";
import { Templates } from "./template/templates.ts";
import type { DiskMachine } from "./volume/hot-plug.ts";
import { LocalVolumes } from "./volume/local-volumes.ts";
import { readTail } from "./host/file-text.ts";

/**
 * The local cloud on QEMU. Nothing is remembered here that the state folder does not say: any process
 * may open the same folder at any time, and see and do the same.
 */
export class QemuCloud implements LocalCloud {
  readonly name = "local";
  readonly zone = "local";
  readonly hostAddress: string;
  readonly #options: ResolvedLocalCloudOptions;
  readonly #store: MachineStore;
  readonly #network: LocalNetwork;
  readonly #networkWatch: NetworkWatch;
  readonly #watch: MachineWatch;
  readonly #volumes: LocalVolumes;
  readonly #admission: Admission;
  readonly #accelerator: AcceleratorChoice;
  readonly #templates: Templates;
  readonly #starter: MachineStarter;
  readonly #offers: readonly InstanceTypeOffer[];
  readonly #terminator: MachineTerminator;
  readonly #closed = new AbortController();
  #consoles: Promise<void> | undefined;
  #isNetworkPrepared = false;

  constructor(options: ResolvedLocalCloudOptions) {
    this.#options = options;
    this.#store = new MachineStore(options.stateDir);
    this.#network = new LocalNetwork({
      name: options.namespace,
      stateDir: options.stateDir,
      range: options.range,
      internet: options.internet,
      hostPorts: options.hostPorts,
      managementPorts: options.managementPorts,
      serviceRanges: options.serviceRanges,
      logger: options.logger,
    });
    this.#networkWatch = new NetworkWatch({
      ...options,
      network: this.#network,
      lock: async (work) => await this.#store.lockNetwork(work),
    });
    this.hostAddress = this.#network.plan.host;
    this.#offers = localInstanceTypes(options.host);
    this.#watch = new MachineWatch(
      (id, reason) => this.#terminator.note(id, reason),
      options.logger,
    );
    this.#admission = new Admission({
      ...options,
      machinesDir: this.#store.folder,
      readRoom: async () => await readRoom(options, this.#store),
    });
    this.#accelerator = new AcceleratorChoice(options);
    this.#templates = new Templates(options, this.#store, this.#network);
    this.#starter = new MachineStarter({
      options,
      store: this.#store,
      network: this.#network,
      watch: this.#watch,
      templates: this.#templates,
    });
    this.#volumes = new LocalVolumes({
      ...options,
      store: this.#store,
      freeDisk: async () => (await readRoom(options, this.#store)).disk,
      machines: {
        withRunning: (id, work) =>
          this.#withRunning(id, (record) => work(record && this.#diskMachine(record))),
        noteEnd: async (id) => void (await this.describe(id)),
      },
    });
    this.#terminator = new MachineTerminator({
      options,
      store: this.#store,
      network: this.#network,
      watch: this.#watch,
      admission: this.#admission,
      volumes: this.#volumes,
    });
  }

  /** Finds what runs, and finishes what a killed process began to remove. */
  async open(): Promise<void> {
    await this.#store.open();
    await this.#admission.open();
    await this.#terminator.removeUnreadable();
    for (const record of await this.#store.readAll()) {
      await this.#terminator.clear(record);
      if (record.owner === this.#options.owner) await this.#current(record);
    }
    await this.#volumes.open();
    await this.#templates.open();
    await this.#networkWatch.start();
    const { clock, logger } = this.#options;
    const { signal } = this.#closed;
    this.#consoles = keepConsolesShort({ store: this.#store, clock, logger, signal });
  }

  async prepareNetwork(): Promise<void> {
    await this.#store.lockNetwork(() => this.#network.prepare());
    this.#isNetworkPrepared = true;
    await this.#networkWatch.start();
    // Known by the time the first machine is asked for.
    this.#accelerator.get().catch(() => {}); // asked again, and reported, by the launch
  }

  async removeNetwork(): Promise<void> {
    this.#isNetworkPrepared = false;
    await this.#networkWatch.stop();
    await this.#store.lockNetwork(() => this.#network.remove());
  }

  async instanceTypes(): Promise<readonly InstanceTypeOffer[]> {
    return await Promise.resolve(this.#offers);
  }

  async resolveImage(spec: Readonly<Record<string, string>>): Promise<string> {
    return (await findImage(this.#options.imagesDir, spec)).id;
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    checkLaunchRequest(request);
    const id = machineId(this.#options.owner, request.token);
    return await this.#admission.inTurn(
      request,
      signal,
      async (turn) =>
        await this.#store.lockMachine(id, async () => {
          const known = await this.#store.read(id);
          // One that was being started may never have been let run: it is started again.
          if (known?.state === "running" && (await this.#isAlive(known))) return toInstance(known);
          signal?.throwIfAborted();
          return await this.#start(known, request, turn);
        }),
    );
  }

  /** Starts a machine that does not run; `known` is what an earlier start left. */
  async #start(
    known: MachineRecord | undefined,
    request: LaunchRequest,
    turn: Turn,
  ): Promise<Instance> {
    const options = this.#options;
    const image = await readImage(options.imagesDir, request.image);
    const accelerator = await this.#accelerator.get();
    if (!this.#isNetworkPrepared || !(await this.#network.exists())) await this.prepareNetwork();
    if (known) await this.#terminator.remove(known);
    const context = {
      options,
      store: this.#store,
      plan: this.#network.plan,
      offers: this.#offers,
      turn,
    };
    const record = await reserveMachine(context, request, image);
    try {
      const started = await this.#starter.start({
        record,
        image,
        accelerator,
        userData: request.userData,
        nameservers: await this.#network.nameservers(),
        images: request.images,
      });
      const instance = await this.#confirmRunning({ ...record, ...started });
      turn.isRunning(this.#store.files(record.id), started.startedFrom);
      return instance;
    } catch (error) {
      await this.#terminator.remove(record);
      throw error;
    }
  }

  async waitForRunning(instanceId: string, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    const isInterrupted = await this.#terminator.removeInterrupted(instanceId);
    const instance = await this.describe(instanceId);
    if (instance?.state === "running") return instance;
    if (instance === undefined && !isInterrupted) {
      throw new CloudError(
        "CLOUD_NOT_FOUND",
        `Cannot wait for machine "${instanceId}": it is gone`,
      );
    }
    throw new CloudError(
      "CLOUD_UNAVAILABLE",
      `Cannot wait for machine "${instanceId}": its start was interrupted`,
      { remedy: "Launch it again with the same token" },
    );
  }

  async waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void> {
    const gone = this.#watch.gone(instanceId, signal);
    gone.catch(() => {}); // awaited below, but may fail before that
    if ((await this.describe(instanceId)) === undefined) this.#watch.settle(instanceId);
    await gone;
  }

  async terminate(instanceId: string): Promise<void> {
    const record = await this.#store.read(instanceId);
    if (record?.owner === this.#options.owner) await this.#terminator.terminate(instanceId);
  }

  async terminateAll(): Promise<void> {
    const records = await this.#store.readAll();
    await this.#templates.abort();
    await this.#templates.removeDrafts();
    await Promise.all(records.map((record) => this.#terminator.terminate(record.id)));
  }

  async growRootDisk(instanceId: string, sizeBytes: number): Promise<void> {
    await this.#withRunning(instanceId, async (record) => {
      if (!record) throw notFound("grow the root disk of", instanceId);
      await growRootDisk({ options: this.#options, store: this.#store }, record, sizeBytes);
    });
  }

  async describe(instanceId: string): Promise<Instance | undefined> {
    const record = await this.#store.read(instanceId);
    if (record?.owner !== this.#options.owner) return undefined;
    return await this.#current(record);
  }

  async list(): Promise<readonly Instance[]> {
    const records = await this.#store.readAll();
    const own = records.filter((record) => record.owner === this.#options.owner);
    const instances = await Promise.all(own.map((record) => this.#current(record)));
    return instances.filter((instance) => instance !== undefined);
  }

  async consoleOutput(instanceId: string, maxBytes: number): Promise<string> {
    const record = await this.#store.read(instanceId);
    if (record?.owner !== this.#options.owner) throw notFound("read the console of", instanceId);
    return await readTail(this.#store.files(instanceId).console, maxBytes);
  }

  async networkFacts(): Promise<NetworkFacts> {
    const { plan } = this.#network;
    return {
      nameservers: await this.#network.nameservers(),
      searchDomains: [],
      cidrs: [plan.machines, plan.pods],
    };
  }

  onTerminated(callback: (instance: Instance) => void): () => void {
    return this.#terminator.listen(callback);
  }

  /** Local machines are never taken back. */
  onInterruption(): () => void {
    return () => {};
  }

  async createVolume(request: VolumeRequest): Promise<Volume> {
    return await this.#volumes.create(request);
  }

  async deleteVolume(volumeId: string): Promise<void> {
    await this.#volumes.delete(volumeId);
  }

  async attachVolume(volumeId: string, instanceId: string): Promise<void> {
    await this.#volumes.attach(volumeId, instanceId);
  }

  async detachVolume(volumeId: string, instanceId: string): Promise<void> {
    await this.#volumes.detach(volumeId, instanceId);
  }

  async listVolumes(): Promise<readonly Volume[]> {
    return await this.#volumes.list();
  }

  async prepareTemplate(
    instanceType: string,
    imageId: string,
    rootDiskBytes: number,
    { signal, images }: Parameters<LocalCloud["prepareTemplate"]>[3] = {},
  ): Promise<void> {
    signal?.throwIfAborted();
    const image = await readImage(this.#options.imagesDir, imageId);
    const offer = findOffer(this.#offers, instanceType);
    const size = machineSize(offer, rootDiskBytes, image);
    const accelerator = await this.#accelerator.get();
    const shape = await this.#starter.shape(size, image, accelerator);
    await this.#templates.prepare({ ...shape, images }, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    await this.#networkWatch.stop();
    await this.#consoles;
    this.#terminator.close();
    await this.#admission.close();
    await this.#templates.close();
    await this.#watch.close();
  }

  /** The machine as it is now; undefined once it has ended, which is noted if it has not been. */
  async #current(record: MachineRecord): Promise<Instance | undefined> {
    if (record.state === "ended") return undefined;
    if (record.state !== "running" || (await this.#isAlive(record))) return toInstance(record);
    await this.#terminator.note(record.id, undefined);
    return undefined;
  }

  async #isAlive(record: MachineRecord): Promise<boolean> {
    if (record.state === "ended" || record.state === "stopping") return false;
    return await this.#watch.add(record.id, this.#store.files(record.id));
  }

  /** Runs with the machine locked; with undefined if it does not run or is not ours. */
  async #withRunning<T>(
    id: string,
    work: (record: MachineRecord | undefined) => Promise<T>,
  ): Promise<T> {
    return await this.#store.lockMachine(id, async () => {
      const record = await this.#store.read(id);
      if (record?.owner !== this.#options.owner) return await work(undefined);
      if (record.state === "stopping") await this.#terminator.remove(record); // its remover was killed
      return await work((await this.#isAlive(record)) ? record : undefined);
    });
  }

  #diskMachine(record: MachineRecord): DiskMachine {
    const files = this.#store.files(record.id);
    const { folder, command } = files;
    return {
      folder,
      command,
      processes: machineProcesses(record, files),
      user: userOfMachine(record, this.#options.firstUserId),
      pathInside: (file) => `/${path.relative(folder, file)}`,
    };
  }

  /** Notes that the machine runs. The caller holds its lock. */
  async #confirmRunning(record: MachineRecord): Promise<Instance> {
    if (!(await this.#isAlive(record))) {
      throw new CloudError(
        "CLOUD_UNAVAILABLE",
        `Cannot start machine "${record.name}": it ended at once`,
      );
    }
    const running = { ...record, state: "running" } as const;
    await this.#store.update(running);
    this.#options.logger.info("Machine started", {
      instance: record.id,
      cell: record.name,
      instanceType: record.instanceType,
      address: record.managementIp,
      startedFrom: record.startedFrom,
    });
    return toInstance(running);
  }
}

function notFound(action: string, id: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", `Cannot ${action} machine "${id}": it does not exist`);
}
