/** What a cloud calls on-demand, spot or dedicated capacity. */
export type LaunchType = "on-demand" | "spot" | "dedicated";

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
  /** Image ID as {@link CloudDriver.resolveImage} gave it. */
  readonly image: string;
  /** Size of the root disk, bytes; never smaller than the image's. */
  readonly rootDiskBytes: number;
  /** cloud-init user data, at most 16,000 bytes. */
  readonly userData: string;
  /** No public address. */
  readonly privateIpOnly: boolean;
  /** Tags of the instance besides those the driver needs itself. */
  readonly tags: Readonly<Record<string, string>>;
}

/** pending: asked for, no address promised; running: has both addresses; terminated: costs nothing any more. */
export type InstanceState = "pending" | "running" | "stopping" | "terminated";

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
  readonly managementIp?: string;
  /** Address of the pod. */
  readonly podIp?: string;
  readonly publicIp?: string;
  /** RFC 3339. */
  readonly launchedAt: string;
  readonly tags: Readonly<Record<string, string>>;
  /** Why it ended or cannot start, one sentence, if the cloud says so. */
  readonly stateReason?: string;
}

/** One instance type on offer. */
export interface InstanceTypeOffer {
  readonly name: string;
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  /** US dollars per hour, per launch type; 0 where nothing is paid. */
  readonly pricePerHour: Partial<Readonly<Record<LaunchType, number>>>;
}

/** DNS and address facts of the network the cells are in. */
export interface NetworkFacts {
  readonly nameservers: readonly string[];
  readonly searchDomains: readonly string[];
  /** CIDRs that cells and their pods get addresses from. */
  readonly cidrs: readonly string[];
}

/**
 * A cloud that sells virtual machines. One implementation per cloud; all pass the conformance
 * suite of `@kip/cloud/testing`. All failures are `CloudError`s of the closed set in errors.ts.
 *
 * The driver is bound to one *owner* (the ID of this kip installation); it lists and touches only
 * instances that carry the owner's tag.
 */
export interface CloudDriver extends AsyncDisposable {
  /** Short name: "local", "aws", "gce", "azure", "simulated". */
  readonly name: string;
  /** Zone or region, for labels. */
  readonly zone: string;
  /** The types on offer here, with what an instance really gives a pod. */
  instanceTypes(): Promise<readonly InstanceTypeOffer[]>;
  /** Turns the configured image specification into an image ID; fails with `CLOUD_NOT_FOUND`. */
  resolveImage(spec: Readonly<Record<string, string>>): Promise<string>;
  /**
   * Starts an instance, or returns the one this token has started before. Returns as soon as the
   * cloud has accepted; safe to repeat after any failure.
   */
  launch(request: LaunchRequest, signal?: AbortSignal): Promise<Instance>;
  /** Resolves, by event, once the instance is running with its addresses; fails with `CLOUD_NOT_FOUND` or `CLOUD_UNAVAILABLE` if it ends first. */
  waitForRunning(instanceId: string, signal?: AbortSignal): Promise<Instance>;
  /** Resolves, by event, once the instance is gone; at once if it is unknown. */
  waitForTerminated(instanceId: string, signal?: AbortSignal): Promise<void>;
  /** Ends an instance and frees everything it had. Ending it twice, or an unknown one, succeeds. Resolves when accepted. */
  terminate(instanceId: string): Promise<void>;
  /** The instance, or undefined if it does not exist or is terminated. */
  describe(instanceId: string): Promise<Instance | undefined>;
  /** Every instance of this owner that is not terminated. */
  list(): Promise<readonly Instance[]>;
  /** The last bytes of the serial console, at most `maxBytes`. */
  consoleOutput(instanceId: string, maxBytes: number): Promise<string>;
  networkFacts(): Promise<NetworkFacts>;
  /**
   * Calls back whenever an instance of this owner ends without having been asked to, as far as the
   * cloud tells; returns a function that unsubscribes.
   */
  onTerminated(callback: (instance: Instance) => void): () => void;
}
