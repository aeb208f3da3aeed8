import type { Architecture, CustomFamily, OfferedInstanceType } from "@kip/instance-types";
import type { DedicatedHosts } from "./dedicated-hosts.ts";

/** What a cloud calls on-demand, spot or dedicated capacity. */
export type LaunchType = "on-demand" | "spot" | "dedicated";

/** What only some clouds can give an instance: see the fields of {@link LaunchRequest} with these names. */
export type LaunchExtra = "instanceProfile" | "securityGroups" | "routes";

/** What {@link CloudDriver.launch} is asked for. */
export interface LaunchRequest {
  /**
   * Idempotency token: the UID of the Cell. A second launch with a token whose instance still
   * exists returns that instance, in any process, at any time.
   */
  readonly token: string;
  /** Name for people: the Cell's name. */
  readonly name: string;
  readonly instanceType: string;
  readonly launchType: LaunchType;
  /** One of the driver's {@link CloudDriver.zones}. @default the driver's own */
  readonly zone?: string | undefined;
  /** Image ID as {@link CloudDriver.resolveImage} gave it. */
  readonly image: string;
  /** Size of the root disk, bytes; never smaller than the image's. */
  readonly rootDiskBytes: number;
  /** cloud-init user data, at most 16,000 bytes; as text or compressed by gzip. The instance gets it byte by byte. */
  readonly userData: Uint8Array;
  /** No public address. */
  readonly privateIpOnly: boolean;
  /**
   * Name or ARN of the identity that the pod gets from the cloud's metadata service, which it reaches then. Only for a driver
   * whose {@link CloudDriver.launchExtras} has it. @default none
   */
  readonly instanceProfile?: string | undefined;
  /**
   * IDs of firewall groups that this instance has besides those of all cells. Only for a driver whose
   * {@link CloudDriver.launchExtras} has it. @default none
   */
  readonly securityGroups?: readonly string[] | undefined;
  /**
   * CIDRs, in their canonical form, whose packets the cloud routes to this instance while it runs; it may then send packets from
   * these addresses. Only for a driver whose {@link CloudDriver.launchExtras} has it. @default none
   */
  readonly routes?: readonly string[] | undefined;
  /** Tags of the instance besides those the driver needs itself. */
  readonly tags: Readonly<Record<string, string>>;
  /**
   * Images that the instance will run. A driver may give an instance that has them already; it pulls them itself
   * otherwise, and asks the registry what its tags mean in any case.
   */
  readonly images?: LaunchImages | undefined;
  /** When it was asked for, RFC 3339: where a driver must choose, the oldest comes first. @default now */
  readonly createdAt?: string | undefined;
  /**
   * If given, a driver that has no room may keep the request until it has, instead of refusing it, and calls this
   * with what it waits for, at once and when that has changed much. Aborting the launch ends the waiting.
   */
  readonly onWait?: ((wait: LaunchWait) => void) | undefined;
}

/** Images that anybody may pull, as far as a {@link LaunchRequest} knows them. */
export interface LaunchImages {
  /** Names with a digest, `registry/repository@sha256:…`. */
  readonly references: readonly string[];
  /** How the agent gets them: `ImagePull` of `@kip/agent-api` as JSON. Not for drivers to read. */
  readonly pull: string;
}

/** What {@link CloudDriver.prepareImages} is asked for. */
export type PrepareImagesRequest = Pick<
  LaunchRequest,
  "instanceType" | "image" | "rootDiskBytes"
> & { readonly images: LaunchImages };

/** What a launch waits for. */
export interface LaunchWait {
  /** One sentence for people, with figures and a remedy if there is one. */
  readonly message: string;
  /** How many requests come before. */
  readonly ahead: number;
}

/** pending: asked for, no address promised; running: has both addresses; terminated: no longer costs anything. */
export type InstanceState = "pending" | "running" | "stopping" | "terminated";

/** What an instance has of IPv6, besides its IPv4 addresses. */
export interface InstanceIpv6 {
  /** Address of the machine. */
  readonly managementIp: string;
  /** Address of the pod. */
  readonly podIp: string;
  /**
   * Next hop of all packets. The agent gives the machine its address and this route, and asks no neighbours.
   *
   * @default the router that the network advertises
   */
  readonly gateway?: { readonly address: string; readonly mac: string } | undefined;
}

/** An instance as the cloud knows it. */
export interface Instance {
  readonly id: string;
  readonly token: string;
  readonly name: string;
  readonly owner: string;
  readonly instanceType: string;
  readonly launchType: LaunchType;
  readonly state: InstanceState;
  /** Address of the agent. */
  readonly managementIp?: string | undefined;
  /** Address of the pod. */
  readonly podIp?: string | undefined;
  /** Absent where the network has IPv4 alone. */
  readonly ipv6?: InstanceIpv6 | undefined;
  readonly publicIp?: string | undefined;
  /** RFC 3339. */
  readonly launchedAt: string;
  readonly tags: Readonly<Record<string, string>>;
  /** How it came up, where the cloud has several ways: booted, or copied from a machine that had booted, perhaps with images. */
  readonly startedFrom?: "boot" | "template" | "image-template" | undefined;
  /** Why it ended or cannot start, one sentence, if the cloud says so. */
  readonly stateReason?: string | undefined;
}

/** One instance type on offer: what a pod gets of it, and what else tells types apart. */
export interface InstanceTypeOffer extends OfferedInstanceType {
  /** US dollars per hour, per launch type; 0 where nothing is paid. */
  readonly pricePerHour: Partial<Readonly<Record<LaunchType, number>>>;
}

/** A disk of its own that outlives the instances it is attached to. */
export interface Volume {
  readonly id: string;
  /** Idempotency token it was made with. */
  readonly token: string;
  readonly name: string;
  readonly owner: string;
  readonly sizeBytes: number;
  /** What an instance finds the disk by: 1 to 20 letters and digits, the same wherever it is attached. */
  readonly serial: string;
  /** ID of the instance that has it; none: it can be attached. */
  readonly attachedTo?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
}

/** What {@link CloudDriver.createVolume} is asked for. */
export interface VolumeRequest {
  /** Idempotency token; a second request with it returns the volume of the first, whatever its size. */
  readonly token: string;
  /** Name for people. */
  readonly name: string;
  /** At least 1 MiB; rounded up to what the cloud sells. */
  readonly sizeBytes: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** The cloud's notice that it will take an instance back. */
export interface InterruptionNotice {
  readonly instance: Instance;
  /** When the instance ends, RFC 3339; where the cloud only says that it may, when its pod should have left. */
  readonly endsAt: string;
}

/** Where a driver gets the cluster's Services from. */
export interface ServiceSource {
  /**
   * Begins with all Services that differ from those that the rules have.
   *
   * @param sums of the Services in the rules, as `NetworkRules` of `@kip/service-routing` has them
   */
  subscribe(sums: readonly number[]): ServiceSubscription;
}

/** Changes of the cluster's Services, one at a time. */
export interface ServiceSubscription extends Disposable {
  /**
   * The next change, as lines of `@kip/network-view`, in pieces. The last one has been put in force by then.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

/** DNS and address facts of the network the cells are in. */
export interface NetworkFacts {
  readonly nameservers: readonly string[];
  readonly searchDomains: readonly string[];
  /** CIDRs that cells and their pods get addresses from. */
  readonly cidrs: readonly string[];
  /** Addresses that packets of the node's computer come from besides the node's own; pods let them in. @default none */
  readonly nodeAddresses?: readonly string[] | undefined;
  /**
   * Ranges of both families that pods reach by their own addresses. What they send elsewhere leaves with the address of their
   * cell if that has a public one, where the cloud translates the public address to the cell's own only.
   *
   * @default everything keeps the pod's address
   */
  readonly directRanges?: readonly string[] | undefined;
}

/**
 * A cloud that sells virtual machines. One implementation per cloud; all pass the conformance
 * suite of `@kip/cloud/testing`. All failures are `CloudError`s of the closed set in errors.ts.
 *
 * The driver is bound to one *owner* (the ID of this kip installation); it lists and touches only
 * instances that carry the owner's tag.
 *
 * @example
 * ```ts
 * import type { CloudDriver, Instance } from "@kip/cloud";
 * import { createSimulatedCloud } from "@kip/cloud/simulated";
 *
 * // Ends what has no owner in a list of tokens: any driver will do.
 * async function endOthers(driver: CloudDriver, tokens: ReadonlySet<string>): Promise<readonly Instance[]> {
 *   const others = (await driver.list()).filter(({ token }) => !tokens.has(token));
 *   await Promise.all(others.map(({ id }) => driver.terminate(id)));
 *   return others;
 * }
 *
 * await using driver = createSimulatedCloud().open({ owner: "me" });
 * assert.deepEqual(await endOthers(driver, new Set(["kept"])), []);
 * ```
 */
export interface CloudDriver extends AsyncDisposable {
  /** Short name: "local", "aws", "gce", "azure", "simulated". */
  readonly name: string;
  /** For the label `topology.kubernetes.io/zone`. */
  readonly zone: string;
  /** Where instances may be launched, the preferred one first. @default `zone` alone */
  readonly zones?: readonly string[] | undefined;
  /** For the label `topology.kubernetes.io/region`. @default the zone */
  readonly region?: string | undefined;
  /** Labels by which programs that this cloud's clusters have tell a virtual node from its machines; the configuration may replace them. @default none */
  readonly nodeLabels?: Readonly<Record<string, string>> | undefined;
  /**
   * How long after its launch {@link CloudDriver.describe} and {@link CloudDriver.list} may lack an instance that another process
   * has launched, milliseconds. @default 0
   */
  readonly consistencyMs?: number | undefined;
  /** What a launch may ask for besides. @default nothing */
  readonly launchExtras?: readonly LaunchExtra[] | undefined;
  /** Where dedicated instances are on whole machines that the driver allocates. @default it allocates none */
  readonly hosts?: DedicatedHosts | undefined;
  /** The types on offer here, with what an instance really gives a pod. */
  instanceTypes(): Promise<readonly InstanceTypeOffer[]>;
  /** Types of any size between limits, where the cloud sells such. @default none */
  customFamilies?(): Promise<readonly CustomFamily[]>;
  /**
   * Turns the configured image specification into the ID of the newest image that it names; fails with `CLOUD_NOT_FOUND`.
   *
   * @param architecture processor of the type that is to boot it: images for others do not count. @default what the driver takes for usual
   */
  resolveImage(
    spec: Readonly<Record<string, string>>,
    architecture?: Architecture,
  ): Promise<string>;
  /**
   * Starts an instance, or returns the one this token has started before. Returns as soon as the
   * cloud has accepted; safe to repeat after any failure.
   */
  launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance>;
  /**
   * Says that later instances of this type, image and disk size may run these images: a driver whose instances can have images
   * already may get them ready in the background. Returns at once; what goes wrong is the driver's to log.
   */
  prepareImages?(request: PrepareImagesRequest): void;
  /**
   * Resolves, by event, once the instance is running with its addresses; fails with `CLOUD_NOT_FOUND` or `CLOUD_UNAVAILABLE` if it ends first.
   *
   * @param answers resolves once something answers at this address, until the signal aborts: an instance that does is running. For
   * drivers whose cloud reports nothing by itself, so that they need not ask it all the time. @default the driver asks its cloud
   */
  waitForRunning(
    instanceId: string,
    signal?: AbortSignal,
    answers?: (managementIp: string, signal: AbortSignal) => Promise<void>,
  ): Promise<Instance>;
  /** Resolves, by event, once the instance is gone; at once if it is unknown. */
  waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void>;
  /** Ends an instance and frees everything it had. Ending it twice, or an unknown one, succeeds. Resolves when accepted. */
  terminate(instanceId: string): Promise<void>;
  /**
   * Makes the root disk of a running instance at least this large. Resolves once the instance's hardware has it; repeating
   * it succeeds, and no disk ever shrinks. The guest grows its file system itself.
   *
   * @param sizeBytes at least 1 MiB; rounded up to what the cloud sells
   * @throws {CloudError} `CLOUD_NOT_FOUND` if the instance does not exist, is another owner's or has ended;
   * `CLOUD_INVALID_REQUEST` for a size that cannot be; `CLOUD_NO_CAPACITY`; `CLOUD_THROTTLED` where a cloud lets a disk grow
   * only now and then
   */
  growRootDisk(instanceId: string, sizeBytes: number): Promise<void>;
  /**
   * Gives an instance these tags in place of those that it was launched with or got since; the driver's own stay. Resolves when
   * the cloud has them, which lists may show later; safe to repeat.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND` if the instance does not exist, is another owner's or has ended;
   * `CLOUD_INVALID_REQUEST` for tags that a launch could not have
   */
  setTags(instanceId: string, tags: Readonly<Record<string, string>>): Promise<void>;
  /** The instance, or undefined if it does not exist or is terminated. */
  describe(instanceId: string): Promise<Instance | undefined>;
  /** Every instance of this owner that is not terminated. */
  list(): Promise<readonly Instance[]>;
  /** The last bytes of the serial console, at most `maxBytes`. */
  consoleOutput(instanceId: string, maxBytes: number): Promise<string>;
  /**
   * What pods need to know of the cloud's network. Kip keeps the answer, asks again at most once a minute and while pods are
   * dispatched, and uses the last one while this fails; it also calls this to find out whether the cloud answers. So a driver
   * asks its cloud each time, and keeps nothing itself.
   *
   * @throws {CloudError} a repetition is safe
   */
  networkFacts(): Promise<NetworkFacts>;
  /**
   * Routes packets for Services on the computer that the cluster's API server runs on, until the signal aborts; the rules
   * in force then stay. Only for a cloud in which that computer is not a node of the cluster, so that nothing else does it.
   */
  routeServices?(source: ServiceSource, signal: AbortSignal): Promise<void>;
  /**
   * Calls back whenever an instance of this owner ends without having been asked to, as far as the
   * cloud tells; returns a function that unsubscribes.
   */
  onTerminated(callback: (instance: Instance) => void): () => void;
  /**
   * Calls back once for each instance of this owner that the cloud will take back, whether it said so before or after this
   * call, and whichever process was there to hear it. The instance ends by itself at the time it names, unless it is terminated
   * before. Returns a function that unsubscribes.
   */
  onInterruption(callback: (notice: InterruptionNotice) => void): () => void;
  /**
   * Makes an empty volume, or returns the one this token has made before.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` for a size that cannot be, `CLOUD_QUOTA`, `CLOUD_NO_CAPACITY`
   */
  createVolume(request: VolumeRequest): Promise<Volume>;
  /**
   * Deletes a volume and all that is on it. Deleting it twice, or an unknown one, succeeds.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` while an instance has it
   */
  deleteVolume(volumeId: string): Promise<void>;
  /**
   * Gives an instance that is running the volume. Resolves once the instance's hardware has it; repeating it succeeds. An
   * instance that ends lets go of its volumes, which stay.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND` if either does not exist, is another owner's, or the instance has ended;
   * `CLOUD_INVALID_REQUEST` while another instance has it
   */
  attachVolume(volumeId: string, instanceId: string): Promise<void>;
  /**
   * Takes the volume from the instance, which must have unmounted it. Resolves once it can be attached elsewhere; taking
   * it from an instance that does not have it, or is gone, succeeds.
   */
  detachVolume(volumeId: string, instanceId: string): Promise<void>;
  /** Every volume of this owner. */
  listVolumes(): Promise<readonly Volume[]>;
}
