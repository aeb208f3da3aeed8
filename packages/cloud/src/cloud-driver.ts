import type { Architecture, CustomFamily, OfferedInstanceType } from "@kip/instance-types";
import type { DedicatedHosts } from "./dedicated-hosts.ts";

/** On-demand, spot or dedicated capacity, in the cloud's sense. */
export type LaunchType = "on-demand" | "spot" | "dedicated";

/** A launch option that only some clouds support: see the field of {@link LaunchRequest} with this name. */
export type LaunchExtra = "instanceProfile" | "securityGroups" | "routes";

/** Arguments of {@link CloudDriver.launch}. */
export interface LaunchRequest {
  /**
   * Idempotency token: the UID of the Cell. A second launch with a token whose instance still exists returns that instance, in
   * any process and at any time.
   */
  readonly token: string;
  /** Name for people to read: the Cell's name. */
  readonly name: string;
  readonly instanceType: string;
  readonly launchType: LaunchType;
  /** One of the driver's {@link CloudDriver.zones}. @default the driver's own zone */
  readonly zone?: string | undefined;
  /** Image ID from {@link CloudDriver.resolveImage}. */
  readonly image: string;
  /** Size of the root disk, bytes. Not smaller than the image's. */
  readonly rootDiskBytes: number;
  /** cloud-init user data, at most 16,000 bytes, as text or gzip. The instance gets exactly these bytes. */
  readonly userData: Uint8Array;
  /** Whether the instance gets no public address. */
  readonly privateIpOnly: boolean;
  /**
   * Name or ARN of the identity that the pod gets from the cloud's metadata service. With it, the pod can reach that service.
   * Only for drivers that list it in {@link CloudDriver.launchExtras}. @default none
   */
  readonly instanceProfile?: string | undefined;
  /**
   * IDs of firewall groups for this instance, in addition to those of all cells. Only for drivers that list it in
   * {@link CloudDriver.launchExtras}. @default none
   */
  readonly securityGroups?: readonly string[] | undefined;
  /**
   * CIDRs in canonical form that the cloud routes to this instance while it runs. The instance may also send packets from these
   * addresses. Only for drivers that list it in {@link CloudDriver.launchExtras}. @default none
   */
  readonly routes?: readonly string[] | undefined;
  /** Tags of the instance, in addition to those that the driver needs. */
  readonly tags: Readonly<Record<string, string>>;
  /**
   * Images that the instance will run. A driver may choose an instance that already has them. Otherwise the instance pulls
   * them. In either case it asks the registry what their tags refer to.
   */
  readonly images?: LaunchImages | undefined;
  /** When the launch was requested, RFC 3339. Where a driver must choose, the oldest request comes first. @default now */
  readonly createdAt?: string | undefined;
  /**
   * If given, a driver without free capacity may queue the request instead of refusing it. It then calls this with the reason
   * for the wait, at once and after each large change. Aborting the launch ends the wait.
   */
  readonly onWait?: ((wait: LaunchWait) => void) | undefined;
}

/** Public images of a {@link LaunchRequest}. */
export interface LaunchImages {
  /** Names with a digest, `registry/repository@sha256:…`. */
  readonly references: readonly string[];
  /** How the agent pulls them: `ImagePull` of `@kip/agent-api` as JSON. Drivers do not read it. */
  readonly pull: string;
}

/** Arguments of {@link CloudDriver.prepareImages}. */
export type PrepareImagesRequest = Pick<
  LaunchRequest,
  "instanceType" | "image" | "rootDiskBytes"
> & { readonly images: LaunchImages };

/** Why a launch is waiting. */
export interface LaunchWait {
  /** One sentence for people, with figures, and with a remedy if there is one. */
  readonly message: string;
  /** Number of requests ahead in the queue. */
  readonly ahead: number;
  /** Whether nothing is lacking: the request only waits until others have started. @default false */
  readonly isTurn?: boolean | undefined;
}

/** pending: requested, addresses not yet known; running: has both addresses; terminated: no longer costs anything. */
export type InstanceState = "pending" | "running" | "stopping" | "terminated";

/** The IPv6 addresses of an instance, in addition to its IPv4 addresses. */
export interface InstanceIpv6 {
  /** Address of the machine. */
  readonly managementIp: string;
  /** Address of the pod. */
  readonly podIp: string;
  /**
   * Next hop of all packets. The agent configures the machine's address and this route, and sends no neighbour solicitations.
   *
   * @default the router that the network advertises
   */
  readonly gateway?: { readonly address: string; readonly mac: string } | undefined;
}

/** An instance, as reported by the cloud. */
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
  /** Absent in an IPv4-only network. */
  readonly ipv6?: InstanceIpv6 | undefined;
  readonly publicIp?: string | undefined;
  /** RFC 3339. */
  readonly launchedAt: string;
  readonly tags: Readonly<Record<string, string>>;
  /** How it started, where the cloud has several ways: booted, or copied from a booted machine, possibly with images. */
  readonly startedFrom?: "boot" | "template" | "image-template" | undefined;
  /** Why it ended or cannot start, in one sentence, if the cloud gives a reason. */
  readonly stateReason?: string | undefined;
}

/** An instance type on offer: its resources for a pod, and its other properties. */
export interface InstanceTypeOffer extends OfferedInstanceType {
  /** US dollars per hour for each launch type. 0 if it is free. */
  readonly pricePerHour: Partial<Readonly<Record<LaunchType, number>>>;
}

/** A disk that outlives the instances it is attached to. */
export interface Volume {
  readonly id: string;
  /** Idempotency token that it was created with. */
  readonly token: string;
  readonly name: string;
  readonly owner: string;
  readonly sizeBytes: number;
  /** How the instance finds the disk: 1 to 20 letters and digits, the same wherever it is attached. */
  readonly serial: string;
  /** ID of the instance that it is attached to. Absent: it can be attached. */
  readonly attachedTo?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
}

/** Arguments of {@link CloudDriver.createVolume}. */
export interface VolumeRequest {
  /** Idempotency token. A second request with it returns the first request's volume, whatever the size. */
  readonly token: string;
  /** Name for people. */
  readonly name: string;
  /** At least 1 MiB, rounded up to a size that the cloud sells. */
  readonly sizeBytes: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** A cloud's notice that it will take an instance back. */
export interface InterruptionNotice {
  readonly instance: Instance;
  /** When the instance ends, RFC 3339. If the cloud only says that it may end: when its pod should have left. */
  readonly endsAt: string;
}

/** A driver's source of the cluster's Services. */
export interface ServiceSource {
  /**
   * Starts with all Services that differ from those in the rules.
   *
   * @param sums checksums of the Services in the rules, in the form of `NetworkRules` in `@kip/service-routing`
   */
  subscribe(sums: readonly number[]): ServiceSubscription;
}

/** Changes of the cluster's Services, one at a time. */
export interface ServiceSubscription extends Disposable {
  /**
   * The next change, as lines of `@kip/network-view`, in pieces. Asking for it confirms that the last one is in force.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

/** DNS servers and address ranges of the network that cells are in. */
export interface NetworkFacts {
  readonly nameservers: readonly string[];
  readonly searchDomains: readonly string[];
  /** CIDRs of the addresses of cells and their pods. */
  readonly cidrs: readonly string[];
  /**
   * Source addresses of packets from the node's computer, in addition to the node's own. Pods accept packets from them.
   * @default none
   */
  readonly nodeAddresses?: readonly string[] | undefined;
  /**
   * Ranges of both families that pods reach with their own address. Packets to other addresses leave with the address of the
   * cell if that has a public one, because the cloud translates the public address only to the cell's own.
   *
   * @default all packets keep the pod's address
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
  /** Value of the label `topology.kubernetes.io/zone`. */
  readonly zone: string;
  /** Zones for launches, the preferred one first. @default `zone` alone */
  readonly zones?: readonly string[] | undefined;
  /** Value of the label `topology.kubernetes.io/region`. @default the zone */
  readonly region?: string | undefined;
  /**
   * Labels that distinguish a virtual node from the cloud's own machines for programs in this cloud's clusters. The
   * configuration may replace them. @default none
   */
  readonly nodeLabels?: Readonly<Record<string, string>> | undefined;
  /**
   * How long {@link CloudDriver.describe} and {@link CloudDriver.list} may miss an instance that another process has launched,
   * milliseconds after the launch. @default 0
   */
  readonly consistencyMs?: number | undefined;
  /** The optional launch options that this driver supports. @default none */
  readonly launchExtras?: readonly LaunchExtra[] | undefined;
  /** The dedicated hosts that the driver allocates. @default it allocates none */
  readonly hosts?: DedicatedHosts | undefined;
  /** The types on offer, with the resources that an instance really gives to a pod. */
  instanceTypes(): Promise<readonly InstanceTypeOffer[]>;
  /** Families of types with a free choice of size, where the cloud sells them. @default none */
  customFamilies?(): Promise<readonly CustomFamily[]>;
  /**
   * Resolves the configured image specification to the ID of the newest matching image. Fails with `CLOUD_NOT_FOUND`.
   *
   * @param architecture processor of the instance type. Images for others do not match. @default the driver's usual one
   */
  resolveImage(
    spec: Readonly<Record<string, string>>,
    architecture?: Architecture,
  ): Promise<string>;
  /**
   * Starts an instance, or returns the one that this token has already started. Returns as soon as the cloud has accepted. Safe
   * to repeat after any failure.
   */
  launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance>;
  /**
   * Announces that later instances of this type, image and disk size may run these images. A driver whose instances can contain
   * images may prepare them in the background. Returns at once. The driver logs failures.
   */
  prepareImages?(request: PrepareImagesRequest): void;
  /**
   * Resolves once the instance is running with its addresses, without polling. Fails with `CLOUD_NOT_FOUND` or
   * `CLOUD_UNAVAILABLE` if it ends first.
   *
   * @param answers resolves once an address answers, until the signal aborts. An instance that answers is running. This saves
   * calls where the cloud has no events of its own. @default the driver asks its cloud
   */
  waitForRunning(
    instanceId: string,
    signal?: AbortSignal,
    answers?: (managementIp: string, signal: AbortSignal) => Promise<void>,
  ): Promise<Instance>;
  /** Resolves once the instance is gone, without polling. Resolves at once if it is unknown. */
  waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void>;
  /**
   * Ends an instance and frees its resources. Succeeds for an unknown or ended instance. Resolves when the cloud has accepted.
   */
  terminate(instanceId: string): Promise<void>;
  /**
   * Grows the root disk of a running instance to at least this size. Resolves once the instance's hardware has it. Repeating it
   * succeeds, and a disk never shrinks. The guest grows its own file system.
   *
   * @param sizeBytes at least 1 MiB, rounded up to a size that the cloud sells
   * @throws {CloudError} `CLOUD_NOT_FOUND` if the instance does not exist, has another owner or has ended;
   * `CLOUD_INVALID_REQUEST` for an invalid size; `CLOUD_NO_CAPACITY`; `CLOUD_THROTTLED` where a cloud limits how often a disk
   * may grow
   */
  growRootDisk(instanceId: string, sizeBytes: number): Promise<void>;
  /**
   * Replaces the tags that an instance got at launch or later. The driver's own tags stay. Resolves when the cloud has them,
   * even if lists show them later. Safe to repeat.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND` if the instance does not exist, has another owner or has ended;
   * `CLOUD_INVALID_REQUEST` for tags that a launch would refuse
   */
  setTags(instanceId: string, tags: Readonly<Record<string, string>>): Promise<void>;
  /** The instance, or undefined if it does not exist or is terminated. */
  describe(instanceId: string): Promise<Instance | undefined>;
  /** Every instance of this owner that is not terminated. */
  list(): Promise<readonly Instance[]>;
  /** The end of the serial console's output, at most `maxBytes`. */
  consoleOutput(instanceId: string, maxBytes: number): Promise<string>;
  /**
   * Facts about the cloud's network that pods need. Kip caches the answer. It asks again at most once a minute, while pods are
   * being dispatched, and uses the last answer while this fails. Kip also calls this to check whether the cloud answers. So a
   * driver asks its cloud each time and caches nothing.
   *
   * @throws {CloudError} a repetition is safe
   */
  networkFacts(): Promise<NetworkFacts>;
  /**
   * Routes packets for Services on the computer that runs the cluster's API server, until the signal aborts. The rules in force
   * then stay. Only for a cloud in which that computer is not a node of the cluster, so that no kube-proxy does it.
   */
  routeServices?(source: ServiceSource, signal: AbortSignal): Promise<void>;
  /**
   * Calls back when an instance of this owner ends without a request, as far as the cloud reports it. Returns a function that
   * unsubscribes.
   */
  onTerminated(callback: (instance: Instance) => void): () => void;
  /**
   * Calls back once for each instance of this owner that the cloud will take back. Includes notices from before this call, and
   * those that another process has received. The instance ends by itself at the time of the notice, unless it is terminated
   * earlier. Returns a function that unsubscribes.
   */
  onInterruption(callback: (notice: InterruptionNotice) => void): () => void;
  /**
   * Creates an empty volume, or returns the one that this token has already created.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` for an invalid size, `CLOUD_QUOTA`, `CLOUD_NO_CAPACITY`
   */
  createVolume(request: VolumeRequest): Promise<Volume>;
  /**
   * Deletes a volume and its data. Succeeds for an unknown or deleted volume.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` while it is attached to an instance
   */
  deleteVolume(volumeId: string): Promise<void>;
  /**
   * Attaches the volume to a running instance. Resolves once the instance's hardware has it. Repeating it succeeds. When an
   * instance ends, its volumes are detached and stay.
   *
   * @throws {CloudError} `CLOUD_NOT_FOUND` if either does not exist or has another owner, or if the instance has ended;
   * `CLOUD_INVALID_REQUEST` while it is attached to another instance
   */
  attachVolume(volumeId: string, instanceId: string): Promise<void>;
  /**
   * Detaches the volume from the instance, which must have unmounted it. Resolves once it can be attached elsewhere. Succeeds
   * if it is not attached to the instance, or if the instance is gone.
   */
  detachVolume(volumeId: string, instanceId: string): Promise<void>;
  /** Every volume of this owner. */
  listVolumes(): Promise<readonly Volume[]>;
}
