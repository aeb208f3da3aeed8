import type { Duplex, Readable } from "node:stream";
import type { ProcessStreams } from "@kip/base";
import type { EnvVar, FileKeySelector, Node, NodeStatus, Pod, PodStatus } from "@kip/k8s-types";
import type { MetricFamily } from "./metrics/metrics-text.ts";
import type { ProbeCounts, ProviderStats } from "./usage.ts";

/** Whether a provider has a pod. "unknown" means it cannot tell now, and never leads to a deletion. */
export type PodPresence = "present" | "absent" | "unknown";

/** A file that a volume of the pod shows. */
export interface VolumeFile {
  /** Path below the volume's root. */
  readonly path: string;
  readonly data: Uint8Array;
  /** Permission bits. */
  readonly mode: number;
  /** User as containers number them. @default 0 */
  readonly owner?: number | undefined;
}

/**
 * A pod with everything it refers to, as a provider receives it.
 * The values are secret; do not log them.
 */
export interface ResolvedPod {
  /** The pod as the API has it. Do not change it. */
  readonly pod: Pod;
  /** Environment of each container (init, regular, ephemeral) by container name, in order. `$(VAR)` is expanded. */
  readonly env: ReadonlyMap<string, readonly Required<Pick<EnvVar, "name" | "value">>[]>;
  /**
   * Variables whose value is known only once the pod has an address: container name → variable →
   * field path (`status.podIP`, `status.podIPs`, `status.hostIP`, `status.hostIPs`). The provider fills them in.
   */
  readonly lateEnv: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /**
   * Values that refer to late variables: container name → variable → text with their `$(NAME)`
   * references left in it. `bindLateEnv` fills in both.
   */
  readonly lateTemplates?: ReadonlyMap<string, ReadonlyMap<string, string>> | undefined;
  /**
   * Variables whose value is in a file of the pod when the container starts: container name → variable → file, volume and
   * key. Only for providers with {@link PodProvider.readsEnvFiles}.
   */
  readonly fileEnv?: ReadonlyMap<string, ReadonlyMap<string, FileKeySelector>> | undefined;
  /** Files of each configMap, secret, downwardAPI and projected volume, by volume name. */
  readonly files: ReadonlyMap<string, readonly VolumeFile[]>;
  /** `.dockerconfigjson` documents of the pod's imagePullSecrets, parsed. */
  readonly pullSecrets: readonly unknown[];
  /** When something in here must be resolved again (a token expires), milliseconds since the epoch. */
  readonly refreshAt?: number | undefined;
}

/** Options of a log request, as the kubelet's `containerLogs` takes them. */
export interface LogOptions {
  readonly follow: boolean;
  readonly previous: boolean;
  readonly timestamps: boolean;
  /** Lines from the end, 0 or more. */
  readonly tailLines?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly sinceTimeMs?: number | undefined;
  /** Largest answer in bytes, 1 or more. */
  readonly limitBytes?: number | undefined;
  /** One stream only; asked of providers with {@link PodProvider.hasLogStreams} alone. @default both */
  readonly stream?: "Stdout" | "Stderr" | undefined;
}

/** The end of a process that a client was connected to. */
export interface ProcessExit {
  readonly exitCode: number;
}

/** A status that the provider reports. */
export interface PodStatusUpdate {
  readonly uid: string;
  /** The whole new status of the pod. */
  readonly status: PodStatus;
  /** Annotations to set on the pod; its others stay. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /**
   * The backend has removed the pod for good. The status is written (containers that still run in it
   * have ended with 137) and the pod's object is deleted, so that its owner makes another one.
   * @default false
   */
  readonly isDeleted?: boolean | undefined;
}

/** An event the provider wants on a pod. */
export interface PodEvent {
  readonly uid: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /** Field path of the container concerned, for example `spec.containers{web}`. */
  readonly fieldPath?: string | undefined;
}

/** Callbacks through which a provider reports. They never block. */
export interface ProviderCallbacks {
  /**
   * Where replicas of one node stand by for each other: the number of this replica's term. It rises
   * with each change of the active replica, so that a backend that remembers the highest can refuse an outdated one.
   */
  readonly term?: number | undefined;
  podStatus(update: PodStatusUpdate): void;
  podEvent(event: PodEvent): void;
  /** The node's facts changed: {@link PodProvider.nodeFacts} is called again. */
  nodeChanged(): void;
  /** The labels of the Node object, those of others too, as they were seen last; undefined before it is registered. */
  nodeLabels?(): Readonly<Record<string, string>> | undefined;
  /** The same, as the API has them now. @throws {K8sError} */
  readNodeLabels?(): Promise<Readonly<Record<string, string>> | undefined>;
}

/** The provider's part of the Node object; the library adds names, leases and conditions. */
export interface NodeFacts {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable?: Readonly<Record<string, string>> | undefined;
  readonly internalIp: string;
  /** Its address of the other family, where it has one. @default none */
  readonly otherInternalIps?: readonly string[] | undefined;
  readonly providerId?: string | undefined;
  readonly nodeInfo?: Partial<NonNullable<NonNullable<Node["status"]>["nodeInfo"]>> | undefined;
  /** What the node's containers can have that others cannot; the scheduler and clients look at it. */
  readonly features?: NodeStatus["features"];
  readonly runtimeHandlers?: NodeStatus["runtimeHandlers"];
  /** Absent when all is well; else why the node cannot take pods. */
  readonly notReady?: { readonly reason: string; readonly message: string };
}

/**
 * What runs pods. Calls for one pod UID are serial; calls for different pods are not.
 *
 * Errors: throw {@link VirtualKubeletError}s, or other errors that have one as a `cause`. The code `VK_NOT_FOUND` means
 * that the pod or container does not exist, `VK_INVALID_POD` that this pod can never run here: it fails with the error's
 * message. After any other error the call is repeated with a back-off, and the error is shown as an event on the pod.
 */
export interface PodProvider {
  /** Called once, before anything else. */
  start(callbacks: ProviderCallbacks): Promise<void>;
  /** Optional: called once, after everything else, with ten seconds to return. The pods go on. */
  stop?(): Promise<void>;
  /**
   * Optional: whether the node takes a pod at all, as a kubelet's admission. Called before anything that the pod refers
   * to is looked up, and not for a pod whose status has a start time: an earlier process has admitted it.
   *
   * @throws {VirtualKubeletError} `VK_INVALID_POD` with the reason: the pod fails, and is not applied; after another
   *   error it is asked again
   */
  admit?(pod: Pod): Promise<void>;
  /**
   * Brings the pod to run, or its changed parts into effect. Called with the pod's whole desired
   * state: at first sight, after each change, after a restart of the library for each pod that is not
   * finished, and when resolved content changed. Must be idempotent by the pod's UID. Returns when
   * the pod is accepted, not when it runs; what happens later comes as status.
   */
  apply(pod: ResolvedPod, signal: AbortSignal): Promise<void>;
  /**
   * Optional: follows what an earlier process has started of a pod, and changes nothing of it. Called after a restart of
   * the library, for a pod whose status has a start time, while something that it refers to cannot be looked up: as with
   * a kubelet, its status, logs and commands do not wait for that. `apply` follows when all is found. Must be idempotent.
   */
  resume?(pod: Pod): Promise<void>;
  /**
   * Stops the pod within the grace period and releases its resources. Resolves when nothing of it is
   * left. Called again, while the first call still runs, if the user shortens the grace period.
   */
  remove(pod: Pod, graceSeconds: number, signal: AbortSignal): Promise<void>;
  /**
   * Optional: the pod is terminal in the API (Succeeded or Failed), whichever client set that: stops whatever
   * still runs of it within its grace period, and keeps its logs until `remove`. Must be idempotent.
   * Called for a pod that the provider has not itself reported as ended, and after a restart of the
   * library for each pod that is terminal; not followed by another `apply`. The signal ends when the
   * pod is to be removed instead. Without it the library calls `remove` for pods that may still run.
   */
  finish?(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Whether the provider has this pod. */
  presence(uid: string): Promise<PodPresence>;
  /** The pods that the provider has, whether the API still has them or not. Pods of which it is uncertain are left out. */
  list(): Promise<
    readonly { readonly uid: string; readonly namespace: string; readonly name: string }[]
  >;
  /** Removes a pod that the API no longer has, at once; a `remove` of it may still be running. */
  removeUnknown(uid: string): Promise<void>;
  nodeFacts(): Promise<NodeFacts>;
  /**
   * Optional: what the machine of this pod offers, where a node has several. A `resourceFieldRef` of a limit that is not
   * set shows it. @default what the node offers
   */
  podAllocatable?(pod: Pod): Promise<Readonly<Record<string, string>>>;
  /** Whether it gives variables the values that files of the pod have (`fileKeyRef`). @default false: such a container waits */
  readonly readsEnvFiles?: boolean | undefined;
  /** Throws, or does not return, when the provider cannot work. */
  ping(signal: AbortSignal): Promise<void>;
  /** Optional: `kubectl logs`. Ends with the log, or never with `follow` until `signal`. */
  logs?(pod: Pod, container: string, options: LogOptions, signal: AbortSignal): Promise<Readable>;
  /** Whether its logs can tell standard output from standard error (KEP-3288). @default false */
  readonly hasLogStreams?: boolean | undefined;
  /** Optional: `kubectl exec`. */
  exec?(
    pod: Pod,
    container: string,
    command: readonly string[],
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit>;
  /** Optional: `kubectl attach`. */
  attach?(
    pod: Pod,
    container: string,
    streams: ProcessStreams,
    signal: AbortSignal,
  ): Promise<ProcessExit>;
  /** Optional: `kubectl port-forward`. Copies until either side ends. */
  portForward?(pod: Pod, port: number, connection: Duplex, signal: AbortSignal): Promise<void>;
  /** Optional: what the pods use now; for `kubectl top`, autoscalers and `/metrics`. */
  stats?(signal: AbortSignal): Promise<ProviderStats>;
  /** Optional: how probes of containers went, for `/metrics/probes`. */
  probes?(signal: AbortSignal): Promise<readonly ProbeCounts[]>;
  /** Optional: a log of the node itself, at `/logs/PATH` of the kubelet API. Undefined: there is no log of this path. */
  nodeLog?(path: string, signal: AbortSignal): Promise<string | undefined>;
  /** Optional: figures of its own at `/metrics`, by names of its own; from memory, each time they are read. */
  metricFamilies?(): readonly MetricFamily[];
}

/** Names of the calls that a provider may leave out. */
export const optionalCalls = [
  "logs",
  "exec",
  "attach",
  "portForward",
  "stats",
  "probes",
  "nodeLog",
] as const satisfies readonly (keyof PodProvider)[];

/** The optional part of a provider. */
export type OptionalCalls = Pick<PodProvider, (typeof optionalCalls)[number] | "hasLogStreams">;
