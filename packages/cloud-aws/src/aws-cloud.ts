import {
  type Architecture,
  CloudError,
  type CloudDriver,
  type DedicatedHosts,
  type Instance,
  type InstanceTypeOffer,
  type InterruptionNotice,
  type LaunchExtra,
  type LaunchRequest,
  type NetworkFacts,
  type RegistryLogIn,
  type RegistryLogIns,
  type Volume,
  type VolumeRequest,
} from "@kip/cloud";
import type { AwsCloudParts } from "./aws-cloud-parts.ts";
import { awsCodeOf, stateReasonError } from "./errors/cloud-error-of.ts";
import type { SeenInstance } from "./instance/to-instance.ts";
import { letForward } from "./network/routes.ts";
import { networkFacts } from "./network/network-facts.ts";
import { growRootDisk } from "./volume/grow-root-disk.ts";

/** The cloud driver for EC2, for one owner. */
export class AwsCloud implements CloudDriver, RegistryLogIns {
  readonly name = "aws";
  readonly launchExtras: readonly LaunchExtra[];
  readonly zone: string;
  readonly zones: readonly string[] | undefined;
  readonly region: string;
  /**
   * The DaemonSets of EKS (aws-node, kube-proxy and its agents) tolerate every taint, and only this label keeps them off a
   * node. Otherwise each of their pods would get an instance. With this label, the AWS Load Balancer Controller also finds pods
   * by their addresses and not by their node.
   */
  readonly nodeLabels: Readonly<Record<string, string>> = {
    "eks.amazonaws.com/compute-type": "fargate",
  };
  readonly consistencyMs: number;
  readonly hosts: DedicatedHosts | undefined;
  readonly #parts: AwsCloudParts;

  constructor(parts: AwsCloudParts) {
    this.#parts = parts;
    const { zones } = parts.subnets;
    this.zone = zones[0] ?? "";
    this.zones = zones.length > 1 ? zones : undefined;
    this.region = parts.region;
    this.consistencyMs = parts.consistencyMs;
    this.hosts = parts.hosts;
    const routes = parts.podRoutes ? (["routes"] as const) : [];
    this.launchExtras = ["instanceProfile", "securityGroups", ...routes];
  }

  async instanceTypes(): Promise<readonly InstanceTypeOffer[]> {
    return await Promise.resolve(this.#parts.offers);
  }

  async resolveImage(
    spec: Readonly<Record<string, string>>,
    architecture?: Architecture,
  ): Promise<string> {
    return await this.#parts.images.resolve(spec, architecture);
  }

  async launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance> {
    return await this.#parts.launcher.launch(request, signal);
  }

  async waitForRunning(
    instanceId: string,
    signal?: AbortSignal,
    answers?: (managementIp: string, signal: AbortSignal) => Promise<void>,
  ): Promise<Instance> {
    const purpose = `wait for instance "${instanceId}"`;
    const { instances } = this.#parts;
    const isOpen = instances.wasPending(instanceId);
    const address = instances.managementIpOf(instanceId);
    const hurries = answers && address !== undefined ? answers.bind(undefined, address) : undefined;
    let wasPending = isOpen;
    const seen = await this.#parts.watch.until(
      instanceId,
      (now) => {
        if (now?.instance.state === "running") return now;
        if (now?.instance.state === "pending") wasPending = true;
        else if (now && wasPending) throw endedEarly(purpose, now);
        else throw new CloudError("CLOUD_NOT_FOUND", `Cannot ${purpose}: it is gone`);
        return undefined;
      },
      { signal, isOpen, isPatient: hurries !== undefined, hurries },
    );
    if (seen.sourceDestCheck && !this.#parts.sourceDestCheck)
      await letForward(this.#parts.ec2, instanceId, signal);
    await this.#parts.routes.ensure(seen);
    return seen.instance;
  }

  async waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void> {
    const { watch, instances, terminator } = this.#parts;
    const isGone = (now: SeenInstance | undefined): true | undefined => {
      if (!now || now.instance.state === "terminated") return true;
      if (terminator.hasMissed(instanceId) && !instances.isMissing(instanceId))
        throw new CloudError(
          "CLOUD_UNAVAILABLE",
          `Cannot end instance "${instanceId}": EC2 did not find it when its end was asked for, and shows it now`,
        );
      instances.expectEnd(instanceId);
      return undefined;
    };
    // An instance takes half a minute or more to end, and is not billed meanwhile.
    const isOpen = instances.isEnding(instanceId);
    await watch.until(instanceId, isGone, { signal, isOpen, isPatient: true });
  }

  async terminate(instanceId: string): Promise<void> {
    await this.#parts.terminator.terminate(instanceId);
  }

  async growRootDisk(instanceId: string, sizeBytes: number): Promise<void> {
    await growRootDisk(this.#parts, instanceId, sizeBytes);
  }

  async setTags(instanceId: string, tags: Readonly<Record<string, string>>): Promise<void> {
    await this.#parts.tagger.setTags(instanceId, tags);
  }

  async describe(instanceId: string): Promise<Instance | undefined> {
    return await this.#parts.instances.describe(instanceId);
  }

  async list(): Promise<readonly Instance[]> {
    const all = await this.#parts.instances.all();
    return all.map(({ instance }) => instance).filter(({ state }) => state !== "terminated");
  }

  async consoleOutput(instanceId: string, maxBytes: number): Promise<string> {
    const { ec2, instances } = this.#parts;
    const purpose = `read the console of instance "${instanceId}"`;
    if (!(await instances.get(instanceId)))
      throw new CloudError("CLOUD_NOT_FOUND", `Cannot ${purpose}: it does not exist`);
    const read = async (Latest: boolean) =>
      await ec2.call("GetConsoleOutput", { InstanceId: instanceId, Latest }, { purpose });
    const answer = await read(true).catch(async (error: unknown) => {
      // Types older than Nitro only have the console of the boot.
      if (awsCodeOf(error) === "UnsupportedOperation") return await read(false);
      throw error;
    });
    const text = Buffer.from(answer.Output ?? "", "base64");
    return text.subarray(Math.max(0, text.length - maxBytes)).toString();
  }

  async networkFacts(): Promise<NetworkFacts> {
    return await networkFacts(this.#parts.ec2, this.#parts.place.vpcId, this.#parts);
  }

  async registryLogIn(host: string, signal?: AbortSignal): Promise<RegistryLogIn | undefined> {
    return await this.#parts.registries.registryLogIn(host, signal);
  }

  onTerminated(callback: (instance: Instance) => void): () => void {
    return this.#parts.watch.listen(callback);
  }

  onInterruption(callback: (notice: InterruptionNotice) => void): () => void {
    const { interruptions, interruptionReader, watch } = this.#parts;
    // Listing all instances shows the notices that other processes have recorded.
    const unfollow = watch.listen(() => {});
    const unsubscribe = interruptions.listen(callback);
    interruptionReader?.start();
    return () => {
      unsubscribe();
      unfollow();
    };
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
    return await this.#parts.store.list();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#parts.close();
    await Promise.resolve();
  }
}

function endedEarly(purpose: string, { instance, reasonCode, reason, zone }: SeenInstance): Error {
  const { instanceType, launchType } = instance;
  return stateReasonError(
    purpose,
    { code: reasonCode, message: reason },
    { instanceType, launchType, zone },
  );
}
