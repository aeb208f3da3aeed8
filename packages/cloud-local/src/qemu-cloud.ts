import path from "node:path";
import { errorText } from "@kip/base";
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
import { localInstanceTypes } from "./catalog.ts";
import { findImage, readImage } from "./image.ts";
import type { LocalCloud } from "./local-cloud.ts";
import type { ResolvedLocalCloudOptions } from "./local-cloud-options.ts";
import { AcceleratorChoice } from "./machine/accelerator.ts";
import { describeEnd } from "./machine/end-reason.ts";
import { MachineWatch } from "./machine/machine-watch.ts";
import { endMachineProcess, freeMachine, readTail } from "./machine/machine-process.ts";
import { toInstance, type MachineRecord } from "./machine/machine-record.ts";
import {
  findOffer,
  machineId,
  machineSize,
  readRoom,
  reserveMachine,
} from "./machine/machine-reservation.ts";
import { MachineStarter } from "./machine/machine-starter.ts";
import { MachineStore } from "./machine/machine-store.ts";
import { userOfSlot } from "./machine/machine-user.ts";
import { LocalNetwork } from "./network/local-network.ts";
import { Templates } from "./template/templates.ts";
import type { DiskMachine } from "./volume/hot-plug.ts";
import { LocalVolumes } from "./volume/local-volumes.ts";

/** How long the console of a machine that ended by itself is kept. */
const endedKeptMs = 60 * 60 * 1000;

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
  readonly #watch: MachineWatch;
  readonly #volumes: LocalVolumes;
  readonly #admission: Admission;
  readonly #accelerator: AcceleratorChoice;
  readonly #templates: Templates;
  readonly #starter: MachineStarter;
  readonly #offers: readonly InstanceTypeOffer[];
  readonly #listeners = new Set<(instance: Instance) => void>();
  /** Ends that this process has told of, by ID and time of launch. */
  readonly #told = new Set<string>();
  /** QEMU's words of ends that were not over when they were heard, by the same. */
  readonly #reasons = new Map<string, string>();
  #isNetworkPrepared = false;

  constructor(options: ResolvedLocalCloudOptions) {
    this.#options = options;
    this.#store = new MachineStore(options.stateDir);
    this.#network = new LocalNetwork({
      name: options.namespace,
      range: options.range,
      internet: options.internet,
      hostPorts: options.hostPorts,
      managementPorts: options.managementPorts,
      logger: options.logger,
    });
    this.hostAddress = this.#network.plan.host;
    this.#offers = localInstanceTypes(options.host);
    this.#watch = new MachineWatch((id, reason) => this.#onEnded(id, reason), options.logger);
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
        withRunning: (id, work) => this.#withRunning(id, work),
        noteEnd: async (id) => void (await this.describe(id)),
      },
    });
  }

  /** Finds what runs, and finishes what a killed process began to remove. */
  async open(): Promise<void> {
    await this.#store.open();
    await this.#admission.open();
    for (const record of await this.#store.readAll()) {
      const isOld =
        record.endedAt !== undefined && record.endedAt + endedKeptMs < this.#options.clock.now();
      if (record.state === "stopping" || isOld)
        await this.#store.lockMachine(record.id, () => this.#removeIfStopping(record.id, isOld));
      else if (record.owner === this.#options.owner) await this.#current(record);
    }
    await this.#volumes.open();
    await this.#templates.open();
  }

  async prepareNetwork(): Promise<void> {
    await this.#store.lockNetwork(() => this.#network.prepare());
    this.#isNetworkPrepared = true;
    // Known by the time the first machine is asked for.
    this.#accelerator.get().catch(() => {}); // asked again, and reported, by the launch
  }

  async removeNetwork(): Promise<void> {
    this.#isNetworkPrepared = false;
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
          // One that was being started may never have been let run: it is started anew.
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
    if (!this.#isNetworkPrepared || !(await this.#network.namespace.exists()))
      await this.prepareNetwork();
    if (known) await this.#remove(known);
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
        ...(request.images && { images: request.images }),
      });
      const instance = await this.#confirmRunning({ ...record, ...started });
      turn.isRunning(this.#store.files(record.id), started.startedFrom);
      return instance;
    } catch (error) {
      await this.#remove(record);
      throw error;
    }
  }

  async waitForRunning(instanceId: string, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    const isInterrupted = await this.#removeInterrupted(instanceId);
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
    if (record?.owner === this.#options.owner) await this.#terminate(instanceId);
  }

  async terminateAll(): Promise<void> {
    const records = await this.#store.readAll();
    await this.#templates.abort();
    await this.#templates.removeDrafts();
    await Promise.all(records.map((record) => this.#terminate(record.id)));
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
    if (record?.owner !== this.#options.owner) {
      throw new CloudError(
        "CLOUD_NOT_FOUND",
        `Cannot read the console of machine "${instanceId}": it does not exist`,
      );
    }
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
    this.#listeners.add(callback);
    return () => void this.#listeners.delete(callback);
  }

  /** Nobody takes a local machine back. */
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
    await this.#templates.prepare({ ...shape, ...(images && { images }) }, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
    await this.#admission.close();
    await this.#templates.close();
    await this.#watch.close();
  }

  /** The machine as it is now; undefined once it has ended, which is noted if nobody has yet. */
  async #current(record: MachineRecord): Promise<Instance | undefined> {
    if (record.state === "ended") return undefined;
    if (record.state !== "running" || (await this.#isAlive(record))) return toInstance(record);
    await this.#onEnded(record.id, undefined);
    return undefined;
  }

  async #isAlive(record: MachineRecord): Promise<boolean> {
    if (record.state === "ended" || record.state === "stopping") return false;
    return await this.#watch.add(record.id, this.#store.files(record.id));
  }

  /** Runs with the machine locked; with undefined if it does not run or is not ours. */
  async #withRunning<T>(
    id: string,
    work: (machine: DiskMachine | undefined) => Promise<T>,
  ): Promise<T> {
    return await this.#store.lockMachine(id, async () => {
      const record = await this.#store.read(id);
      if (record?.owner !== this.#options.owner) return await work(undefined);
      if (record.state === "stopping") await this.#remove(record); // its remover was killed
      if (!(await this.#isAlive(record))) return await work(undefined);
      const { folder, command } = this.#store.files(id);
      return await work({
        folder,
        command,
        user: userOfSlot(this.#options.firstUserId, record.slot),
        pathInside: (file) => `/${path.relative(folder, file)}`,
      });
    });
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

  async #terminate(id: string): Promise<void> {
    await this.#store.lockMachine(id, async () => {
      const record = await this.#store.read(id);
      if (!record) return;
      await this.#remove(record);
      this.#options.logger.info("Machine terminated", { instance: id, cell: record.name });
    });
  }

  /** Removes a machine whole. The caller holds its lock; a second call finishes a first one. */
  async #remove(record: MachineRecord): Promise<void> {
    const files = this.#store.files(record.id);
    if (record.state !== "stopping") await this.#store.update({ ...record, state: "stopping" });
    this.#watch.drop(record.id);
    await endMachineProcess(files);
    await this.#volumes.letGo(record.id);
    await freeMachine(record, files, this.#network);
    await this.#store.remove(record.id);
    this.#watch.settle(record.id);
    await this.#admission.ended(record.id);
  }

  /** Removes a machine whose launch was killed: what it was to be told is gone with that process. */
  async #removeInterrupted(id: string): Promise<boolean> {
    // A launch in progress holds the lock, in whichever process it is.
    return await this.#store.lockMachine(id, async () => {
      const record = await this.#store.read(id);
      if (record?.owner !== this.#options.owner || record.state !== "starting") return false;
      await this.#remove(record);
      return true;
    });
  }

  async #removeIfStopping(id: string, isOld: boolean): Promise<void> {
    const record = await this.#store.read(id);
    if (record?.state === "stopping" || (isOld && record?.state === "ended"))
      await this.#remove(record);
  }

  /** A machine has ended: by itself, or another process has terminated it. */
  async #onEnded(id: string, reason: string | undefined): Promise<void> {
    const ended = await this.#store.lockMachine(id, async () => {
      const record = await this.#store.read(id);
      if (record?.state === "stopping") await this.#remove(record); // its remover was killed
      if (record?.state === "ended") return record; // another process was faster
      if (record?.state !== "running") return undefined;
      // Started anew meanwhile, or about to end: a process that is killed still lets connections in for a moment.
      if (await this.#watch.add(id, this.#store.files(id))) {
        if (reason !== undefined) this.#reasons.set(`${id} ${record.launchedAt}`, reason);
        return "alive";
      }
      await endMachineProcess(this.#store.files(id));
      await this.#volumes.letGo(id);
      await freeMachine(record, this.#store.files(id), this.#network);
      const note = {
        ...record,
        state: "ended",
        stateReason: describeEnd(reason ?? this.#reasons.get(`${id} ${record.launchedAt}`)),
        endedAt: this.#options.clock.now(),
      } as const;
      await this.#store.update(note); // last: whoever reads it finds all of it let go
      return note;
    });
    if (ended === "alive") return;
    this.#watch.settle(id);
    await this.#admission.ended(id);
    if (!ended || this.#told.has(`${id} ${ended.launchedAt}`)) return;
    this.#told.add(`${id} ${ended.launchedAt}`);
    this.#options.logger.info("Machine ended by itself", {
      instance: id,
      reason: ended.stateReason,
    });
    for (const listener of this.#listeners) this.#notify(listener, toInstance(ended));
  }

  #notify(listener: (instance: Instance) => void, instance: Instance): void {
    try {
      listener(instance);
    } catch (error) {
      this.#options.logger.error("A listener failed", { err: errorText(error) });
    }
  }
}
