import type { CloudOperation } from "../operations.ts";
import type {
  CloudDriver,
  Instance,
  InstanceTypeOffer,
  InterruptionNotice,
  LaunchRequest,
  NetworkFacts,
  Volume,
  VolumeRequest,
} from "../cloud-driver.ts";
import { CloudError } from "../errors.ts";
import { checkInstanceTags, checkLaunchRequest, checkRootDiskSize } from "../limits.ts";
import type { ResolvedSimulatedCloudOptions } from "./simulated-cloud-options.ts";
import type { SimulatedMachines } from "./simulated-machines.ts";
import type { SimulatedVolumes } from "./simulated-volumes.ts";

/** Dependencies of {@link SimulatedDriver}. */
export interface SimulatedDriverContext {
  readonly owner: string;
  readonly options: ResolvedSimulatedCloudOptions;
  readonly machines: SimulatedMachines;
  readonly volumes: SimulatedVolumes;
  /** Counts a call that reaches the cloud, and waits for as long as the call takes. */
  readonly arrive: (operation: CloudOperation, signal?: AbortSignal) => Promise<void>;
}

/** A handle on a simulated cloud for one owner. Each handle stands for another process. */
export class SimulatedDriver implements CloudDriver {
  readonly name = "simulated";
  readonly zone: string;
  readonly consistencyMs: number;
  readonly #context: SimulatedDriverContext;
  readonly #ended = new Set<(instance: Instance) => void>();
  readonly #noticed = new Set<(notice: InterruptionNotice) => void>();
  readonly #closed = new AbortController();
  readonly #unlisten: () => void;

  constructor(context: SimulatedDriverContext) {
    this.#context = context;
    this.zone = context.options.zone;
    this.consistencyMs = context.options.lagMs;
    this.#unlisten = context.machines.listen({
      owner: context.owner,
      onEnded: (instance) => this.#ended.forEach((callback) => callback(instance)),
      onNotice: (notice) => this.#noticed.forEach((callback) => callback(notice)),
    });
  }

  async instanceTypes(): Promise<readonly InstanceTypeOffer[]> {
    await this.#context.arrive("instanceTypes");
    return this.#context.options.types;
  }

  async resolveImage(spec: Readonly<Record<string, string>>): Promise<string> {
    await this.#context.arrive("resolveImage");
    const names = Object.keys(this.#context.options.images);
    const name = spec["name"] ?? names[0];
    if (name !== undefined && names.includes(name)) return name;
    throw notFound(`Cannot find image "${name ?? ""}"`);
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    const { owner, machines, arrive } = this.#context;
    await arrive("launch", signal);
    const rootDiskBytes = this.#check(request);
    for (;;) {
      const known = machines.ofToken(owner, request.token);
      if (!known) return machines.add(owner, request, rootDiskBytes);
      if (known.state !== "stopping") return known;
      await machines.changed(known.id, this.#waiting(signal)); // the token is free once the instance is gone
    }
  }

  async waitForRunning(instanceId: string, signal?: AbortSignal): Promise<Instance> {
    const { owner, machines, arrive } = this.#context;
    await arrive("waitForRunning", signal);
    let wasPending = false;
    for (;;) {
      const instance = machines.current(owner, instanceId);
      if (instance?.state === "running") return instance;
      const problem = `Cannot wait for instance "${instanceId}"`;
      if (instance?.state !== "pending") {
        if (wasPending) throw new CloudError("CLOUD_UNAVAILABLE", `${problem}: it has ended`);
        throw notFound(`${problem}: it is gone`);
      }
      wasPending = true;
      await machines.changed(instanceId, this.#waiting(signal));
    }
  }

  async waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void> {
    const { owner, machines, arrive } = this.#context;
    await arrive("waitForTerminated", signal);
    while (machines.current(owner, instanceId))
      await machines.changed(instanceId, this.#waiting(signal));
  }

  async terminate(instanceId: string): Promise<void> {
    const { owner, machines, arrive } = this.#context;
    await arrive("terminate");
    if (machines.current(owner, instanceId)) machines.stop(instanceId);
  }

  async growRootDisk(instanceId: string, sizeBytes: number): Promise<void> {
    const { owner, machines, arrive } = this.#context;
    await arrive("growRootDisk");
    checkRootDiskSize(sizeBytes);
    if (machines.current(owner, instanceId)?.state !== "running")
      throw notFound(`Cannot grow the root disk of instance "${instanceId}": it does not run`);
    machines.growRootDisk(instanceId, sizeBytes);
  }

  async setTags(instanceId: string, tags: Readonly<Record<string, string>>): Promise<void> {
    const { owner, machines, arrive } = this.#context;
    await arrive("setTags");
    checkInstanceTags(tags);
    if (!machines.current(owner, instanceId))
      throw notFound(`Cannot tag instance "${instanceId}": it does not exist`);
    machines.setTags(instanceId, tags);
  }

  async describe(instanceId: string): Promise<Instance | undefined> {
    await this.#context.arrive("describe");
    return this.#context.machines.describe(this.#context.owner, instanceId);
  }

  async list(): Promise<readonly Instance[]> {
    await this.#context.arrive("list");
    return this.#context.machines.list(this.#context.owner);
  }

  async consoleOutput(instanceId: string, maxBytes: number): Promise<string> {
    await this.#context.arrive("consoleOutput");
    const text = this.#context.machines.console(this.#context.owner, instanceId);
    if (text === undefined)
      throw notFound(`Cannot read the console of instance "${instanceId}": it does not exist`);
    const bytes = Buffer.from(text);
    return bytes.subarray(Math.max(0, bytes.length - maxBytes)).toString();
  }

  async networkFacts(): Promise<NetworkFacts> {
    await this.#context.arrive("networkFacts");
    return { nameservers: [], searchDomains: [], cidrs: ["10.0.0.0/9", "10.128.0.0/9"] };
  }

  onTerminated(callback: (instance: Instance) => void): () => void {
    const own = (instance: Instance): void => callback(instance);
    this.#ended.add(own);
    return () => void this.#ended.delete(own);
  }

  onInterruption(callback: (notice: InterruptionNotice) => void): () => void {
    const own = (notice: InterruptionNotice): void => callback(notice);
    this.#noticed.add(own);
    const { machines, owner } = this.#context;
    const earlier = machines.notices(owner);
    queueMicrotask(() => earlier.forEach((notice) => this.#noticed.has(own) && own(notice)));
    return () => void this.#noticed.delete(own);
  }

  async createVolume(request: VolumeRequest): Promise<Volume> {
    await this.#context.arrive("createVolume");
    return this.#context.volumes.create(this.#context.owner, request);
  }

  async deleteVolume(volumeId: string): Promise<void> {
    await this.#context.arrive("deleteVolume");
    this.#context.volumes.delete(this.#context.owner, volumeId);
  }

  async attachVolume(volumeId: string, instanceId: string): Promise<void> {
    const { owner, machines, volumes, arrive } = this.#context;
    await arrive("attachVolume");
    volumes.attach(owner, volumeId, machines.current(owner, instanceId));
  }

  async detachVolume(volumeId: string, instanceId: string): Promise<void> {
    await this.#context.arrive("detachVolume");
    this.#context.volumes.detach(this.#context.owner, volumeId, instanceId);
  }

  async listVolumes(): Promise<readonly Volume[]> {
    await this.#context.arrive("listVolumes");
    return this.#context.volumes.list(this.#context.owner);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unlisten();
    this.#ended.clear();
    this.#noticed.clear();
    this.#closed.abort(
      new CloudError("CLOUD_UNAVAILABLE", "Cannot wait for an instance: the driver was closed"),
    );
    await Promise.resolve();
  }

  /** Checks the request. @returns the size of the root disk */
  #check(request: LaunchRequest): number {
    const { types, images } = this.#context.options;
    checkLaunchRequest(request);
    const offer = types.find(({ name }) => name === request.instanceType);
    if (!offer) throw invalid(`type "${request.instanceType}" is not on offer`);
    if (offer.pricePerHour[request.launchType] === undefined)
      throw invalid(`type "${offer.name}" is not sold ${request.launchType}`);
    const imageBytes = images[request.image];
    if (imageBytes === undefined) throw notFound(`Cannot find image "${request.image}"`);
    return Math.max(imageBytes, request.rootDiskBytes);
  }

  #waiting(signal?: AbortSignal): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closed.signal]) : this.#closed.signal;
  }
}

function notFound(message: string): CloudError {
  return new CloudError("CLOUD_NOT_FOUND", message);
}

function invalid(reason: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", `Cannot start an instance: ${reason}`);
}
