import {
  type Architecture,
  checkInstanceTags,
  CloudError,
  type Instance,
  type InstanceTypeOffer,
  type LaunchRequest,
  type NetworkFacts,
  type PrepareImagesRequest,
  type ServiceSource,
  type Volume,
  type VolumeRequest,
} from "@kip/cloud";
import { readTail } from "./host/file-text.ts";
import { findImage, readImage } from "./host/image.ts";
import { growRootDisk } from "./launch/grow-root-disk.ts";
import { findOffer, machineSize } from "./launch/machine-reservation.ts";
import { machineNotFound } from "./launch/machines.ts";
import type { LocalCloudParts } from "./local-cloud-parts.ts";
import type { ClusterDnsPlace, LocalCloud, PrepareTemplateOptions } from "./local-cloud.ts";
import { routeHostServices } from "./network/host-services.ts";
import { keepConsolesShort } from "./machine/console-size.ts";
import type { MachineShape } from "./template/template-shape.ts";

/**
 * The local cloud on QEMU. It has no state outside the state folder. Any process may open the same folder at any time, with the
 * same results.
 */
export class QemuCloud implements LocalCloud {
  readonly name = "local";
  readonly zone = "local";
  readonly hostAddress: string;
  readonly hostAddresses: readonly string[];
  readonly #parts: LocalCloudParts;
  readonly #closed = new AbortController();
  #consoles: Promise<void> | undefined;

  constructor(parts: LocalCloudParts) {
    this.#parts = parts;
    const { host, ipv6 } = parts.network.plan;
    this.hostAddress = host;
    this.hostAddresses = ipv6 ? [host, ipv6.host] : [host];
  }

  /** Finds running machines, and completes removals that were interrupted. */
  async open(): Promise<void> {
    const { options, store, admission, terminator, machines, volumes, templates } = this.#parts;
    await store.open();
    await admission.open();
    await terminator.removeUnreadable();
    for (const record of await store.readAll()) {
      await terminator.clear(record);
      if (record.owner === options.owner) await machines.current(record);
    }
    await volumes.open();
    await templates.open();
    await this.#parts.sharedNetwork.open();
    const { clock, logger } = options;
    this.#consoles = keepConsolesShort({ store, clock, logger, signal: this.#closed.signal });
  }

  async prepareNetwork(): Promise<void> {
    await this.#parts.sharedNetwork.prepare();
    // Known by the time of the first launch.
    this.#parts.accelerator.get().catch(() => {}); // the launch repeats this and reports the error
  }

  async clusterDns(): Promise<ClusterDnsPlace> {
    const { network } = this.#parts;
    const { clusterDns: address, uplinkDns } = network.plan;
    const resolvers = (await network.hasInternet()) ? [uplinkDns] : [];
    return { namespaceFile: network.namespace.file, address, resolvers };
  }

  async routeServices(source: ServiceSource, signal: AbortSignal): Promise<void> {
    const { options, network } = this.#parts;
    if (options.hostServices) await routeHostServices(source, { ...options, network }, signal);
  }

  async removeNetwork(): Promise<void> {
    await this.#parts.sharedNetwork.remove();
  }

  async instanceTypes(): Promise<readonly InstanceTypeOffer[]> {
    return await Promise.resolve(this.#parts.offers);
  }

  async resolveImage(
    spec: Readonly<Record<string, string>>,
    architecture?: Architecture,
  ): Promise<string> {
    return (await findImage(this.#parts.options.imagesDir, spec, architecture)).id;
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    return await this.#parts.launcher.launch(request, signal);
  }

  async waitForRunning(instanceId: string, signal?: AbortSignal): Promise<Instance> {
    signal?.throwIfAborted();
    const isInterrupted = await this.#parts.terminator.removeInterrupted(instanceId);
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
    const gone = this.#parts.watch.gone(instanceId, signal);
    gone.catch(() => {}); // awaited below, but may fail before that
    if ((await this.describe(instanceId)) === undefined) this.#parts.watch.settle(instanceId);
    await gone;
  }

  async terminate(instanceId: string): Promise<void> {
    const record = await this.#parts.store.read(instanceId);
    if (record?.owner === this.#parts.options.owner)
      await this.#parts.terminator.terminate(instanceId);
  }

  async terminateAll(): Promise<void> {
    const records = await this.#parts.store.readAll();
    await this.#parts.templates.abort();
    await this.#parts.templates.removeDrafts();
    await Promise.all(records.map((record) => this.#parts.terminator.terminate(record.id)));
  }

  async growRootDisk(instanceId: string, sizeBytes: number): Promise<void> {
    await this.#parts.machines.withRunning(instanceId, async (record) => {
      if (!record) throw machineNotFound("grow the root disk of", instanceId);
      await growRootDisk(this.#parts, record, sizeBytes);
    });
  }

  async setTags(instanceId: string, tags: Readonly<Record<string, string>>): Promise<void> {
    checkInstanceTags(tags);
    await this.#parts.machines.withRunning(instanceId, async (record) => {
      if (!record) throw machineNotFound("tag", instanceId);
      await this.#parts.store.update({ ...record, tags: { ...tags } });
    });
  }

  async describe(instanceId: string): Promise<Instance | undefined> {
    return await this.#parts.machines.describe(instanceId);
  }

  async list(): Promise<readonly Instance[]> {
    return await this.#parts.machines.list();
  }

  async consoleOutput(instanceId: string, maxBytes: number): Promise<string> {
    await this.#parts.machines.requireOwn("read the console of", instanceId);
    return await readTail(this.#parts.store.files(instanceId).console, maxBytes);
  }

  async networkFacts(): Promise<NetworkFacts> {
    const { plan } = this.#parts.network;
    return {
      nameservers: await this.#parts.network.nameservers(),
      searchDomains: [],
      cidrs: [plan, plan.ipv6].flatMap((each) => (each ? [each.machines, each.pods] : [])),
      // The source of the host's packets to Services.
      nodeAddresses: [plan.gateway, plan.ipv6?.gateway ?? []].flat(),
    };
  }

  onTerminated(callback: (instance: Instance) => void): () => void {
    return this.#parts.terminator.listen(callback);
  }

  /** Local machines are never taken back. */
  onInterruption(): () => void {
    return () => {};
  }

  async createVolume(request: VolumeRequest): Promise<Volume> {
    return await this.#parts.volumes.create(request);
  }

  async deleteVolume(volumeId: string): Promise<void> {
    await this.#parts.volumes.delete(volumeId);
  }

  async attachVolume(volumeId: string, instanceId: string): Promise<void> {
    await this.#parts.volumes.attach(volumeId, instanceId);
  }

  async detachVolume(volumeId: string, instanceId: string): Promise<void> {
    await this.#parts.volumes.detach(volumeId, instanceId);
  }

  async listVolumes(): Promise<readonly Volume[]> {
    return await this.#parts.volumes.list();
  }

  async prepareTemplate(
    instanceType: string,
    imageId: string,
    rootDiskBytes: number,
    { signal, images }: PrepareTemplateOptions = {},
  ): Promise<void> {
    signal?.throwIfAborted();
    const shape = await this.#shape(instanceType, imageId, rootDiskBytes);
    await this.#parts.templates.prepare({ ...shape, images }, signal);
  }

  prepareImages({ instanceType, image, rootDiskBytes, images }: PrepareImagesRequest): void {
    const { templates, options } = this.#parts;
    this.#shape(instanceType, image, rootDiskBytes).then(
      (shape) => templates.want({ ...shape, images }),
      (err: unknown) => options.logger.debug("Could not prepare images for machines", { err }),
    );
  }

  /** The properties that all machines of this type, image and disk size share. */
  async #shape(type: string, imageId: string, rootDiskBytes: number): Promise<MachineShape> {
    const { options, offers, accelerator, starter } = this.#parts;
    const image = await readImage(options.imagesDir, imageId);
    const size = machineSize(findOffer(offers, type), rootDiskBytes, image);
    return await starter.shape(size, image, await accelerator.get(image.architecture));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { sharedNetwork, terminator, admission, templates, watch } = this.#parts;
    this.#closed.abort();
    await sharedNetwork.close();
    await this.#consoles;
    terminator.close();
    await admission.close();
    await templates.close();
    await watch.close();
  }
}
