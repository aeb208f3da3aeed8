import type { Duplex, Readable } from "node:stream";
import type { ProcessStreams } from "@kip/base";
import type { EnvVar, FileKeySelector, Node, NodeStatus, Pod, PodStatus } from "@kip/k8s-types";
import type { MetricFamily } from "./metrics/metrics-text.ts";
import type { ProbeCounts, ProviderStats } from "./usage.ts";

/** Whether a provider has a pod. "unknown" means that it cannot tell at the moment, and never leads to a deletion. */
export type PodPresence = "present" | "absent" | "unknown";

/** A file in a volume of the pod. */
export interface VolumeFile {
  /** Path relative to the volume's root. */
  readonly path: string;
  readonly data: Uint8Array;
  /** Permission bits. */
  readonly mode: number;
  /** User ID inside containers. @default 0 */
  readonly owner?: number | undefined;
}

/** A pod with everything it refers to, as passed to a provider. The values are secret, so do not log them. */
export interface ResolvedPod {
  /** The pod as in the API. Do not change it. */
  readonly pod: Pod;
  /** Environment of each container (init, regular, ephemeral) by container name, in order, with `$(VAR)` expanded. */
  readonly env: ReadonlyMap<string, readonly Required<Pick<EnvVar, "name" | "value">>[]>;
  /**
   * Variables whose values are known only once the pod has an address: container name → variable → field path (`status.podIP`,
   * `status.podIPs`, `status.hostIP`, `status.hostIPs`). The provider sets them.
   */
  readonly lateEnv: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /**
   * Values that refer to late variables: container name → variable → text that still contains their `$(NAME)` references.
   * `bindLateEnv` sets both.
   */
  readonly lateTemplates?: ReadonlyMap<string, ReadonlyMap<string, string>> | undefined;
  /**
   * Variables with values from files of the pod when the container starts: container name → variable → files, volumes and keys.
   * They replace the last entry of this name in `env`. The last file with a value counts; an entry before that one holds if the
   * files are optional and have no value. Only for providers with {@link PodProvider.readsEnvFiles}.
   */
  readonly fileEnv?:
    ReadonlyMap<string, ReadonlyMap<string, readonly FileKeySelector[]>> | undefined;
  /**
   * Containers whose environment refers to something that does not exist: container name → message. They have no entry in `env`,
   * and cannot start before a later content has one. Only for providers with {@link PodProvider.holdsBackContainers}.
   */
  readonly missingEnv?: ReadonlyMap<string, string> | undefined;
  /** Files of each configMap, secret, downwardAPI and projected volume, by volume name. */
  readonly files: ReadonlyMap<string, readonly VolumeFile[]>;
  /**
   * Such volumes of a pod that has started whose objects do not exist. They have no entry in `files`, and keep the files that they
   * have. Only for providers with {@link PodProvider.holdsBackContainers}.
   */
  readonly missingFiles?: ReadonlySet<string> | undefined;
  /** Parsed `.dockerconfigjson` documents of the pod's imagePullSecrets. */
  readonly pullSecrets: readonly unknown[];
  /** When some content must be resolved again, because a token expires, milliseconds since the epoch. */
  readonly refreshAt?: number | undefined;
}

/** Options of a log request, like the kubelet's for `containerLogs`. */
export interface LogOptions {
  readonly follow: boolean;
  readonly previous: boolean;
  readonly timestamps: boolean;
  /** Number of lines from the end, 0 or more. */
  readonly tailLines?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly sinceTimeMs?: number | undefined;
  /** Largest response in bytes, 1 or more. */
  readonly limitBytes?: number | undefined;
  /** A single stream, only for providers with {@link PodProvider.hasLogStreams}. @default both */
  readonly stream?: "Stdout" | "Stderr" | undefined;
}

/** The end of a process to which a client was connected. */
export interface ProcessExit {
  readonly exitCode: number;
}

/** A status reported by the provider. */
export interface PodStatusUpdate {
  readonly uid: string;
  /**
   * The complete new status of the pod. Its start time only counts if no earlier status had one, as in a kubelet, and nothing
   * follows a terminal phase.
   */
  readonly status: PodStatus;
  /** Annotations to set on the pod. Other annotations stay. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /**
   * Whether the backend has removed the pod for good. The status is then written, with exit code 137 for containers that were
   * still running, and the pod's object is deleted, so that its owner creates a replacement. @default false
   */
  readonly isDeleted?: boolean | undefined;
}

/** An event for a pod from the provider. */
export interface PodEvent {
  readonly uid: string;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /** Field path of the container, for example `spec.containers{web}`. */
  readonly fieldPath?: string | undefined;
}

/** Callbacks for a provider's reports. They never block. */
export interface ProviderCallbacks {
  /**
   * With several replicas of a node: the number of this replica's term. It increases with each change of the active replica, so
   * a backend that remembers the highest can refuse an outdated replica.
   */
  readonly term?: number | undefined;
  podStatus(update: PodStatusUpdate): void;
  podEvent(event: PodEvent): void;
  /** Reports that the node's facts have changed. {@link PodProvider.nodeFacts} is then called again. */
  nodeChanged(): void;
  /** Last known labels of the Node object, including those of other clients. Undefined before it is registered. */
  nodeLabels?(): Readonly<Record<string, string>> | undefined;
  /** Reads the Node's present labels from the API. @throws {K8sError} */
  readNodeLabels?(): Promise<Readonly<Record<string, string>> | undefined>;
}

/** The provider's part of the Node object. The library adds names, Leases and conditions. */
export interface NodeFacts {
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly capacity: Readonly<Record<string, string>>;
  readonly allocatable?: Readonly<Record<string, string>> | undefined;
  readonly internalIp: string;
  /** The node's address of the other family, if it has one. @default none */
  readonly otherInternalIps?: readonly string[] | undefined;
  readonly providerId?: string | undefined;
  readonly nodeInfo?: Partial<NonNullable<NonNullable<Node["status"]>["nodeInfo"]>> | undefined;
  /** Features of the node's containers that not all nodes have. The scheduler and clients use them. */
  readonly features?: NodeStatus["features"];
  readonly runtimeHandlers?: NodeStatus["runtimeHandlers"];
  /**
   * Kubernetes' names of what its pods support beyond older kubelets. API servers since 1.36 refuse changes of pods that need
   * something else. @default none
   *
   * @see https://github.com/kubernetes/enhancements/issues/5328
   */
  readonly declaredFeatures?: readonly string[] | undefined;
  /** Why the node cannot accept pods. Absent if it can. */
  readonly notReady?: { readonly reason: string; readonly message: string };
}

/**
 * Runs pods. Calls for one pod UID are serial, but calls for different pods are not.
 *
 * Errors: throw {@link VirtualKubeletError}s, or other errors with one as a `cause`. `VK_NOT_FOUND` means that the pod or
 * container does not exist. `VK_INVALID_POD` means that this pod can never run here, and the pod then fails with the error's
 * message. After any other error, the call is repeated with a back-off, and the pod gets an event with the error.
 */
export interface PodProvider {
  /** Called once, before all other calls. */
  start(callbacks: ProviderCallbacks): Promise<void>;
  /** Optional: called once, after all other calls. It has ten seconds to return. The pods keep running. */
  stop?(): Promise<void>;
  /**
   * Optional: whether the node accepts the pod, like a kubelet's admission. Called before the pod's references are resolved.
   * Called once, and as in a kubelet again after a restart of the library. Not called for a pod of which something has run, or
   * that the provider has and that has a start time in its status.
   *
   * @throws {VirtualKubeletError} `VK_INVALID_POD` with the reason: the pod fails and is not applied. After any other error, it
   * is called again
   */
  admit?(pod: Pod): Promise<void>;
  /**
   * Runs the pod, or applies its changes. Gets the pod's whole desired state: when the pod is first seen, after each change,
   * after a restart of the library for each pod that is not finished, and when resolved content has changed. Must be idempotent
   * by the pod's UID. Returns when the pod is accepted, not when it is running. Later progress is reported as status.
   */
  apply(pod: ResolvedPod, signal: AbortSignal): Promise<void>;
  /**
   * Optional: resumes following a pod that an earlier process has started, without changing it. Called after a restart of the
   * library for a pod of which something has run, or that the provider has and that has a start time in its status, while
   * something that it refers to cannot be resolved. As in a kubelet, its status, logs and commands do not wait for that. `apply`
   * follows once everything is resolved. Must be idempotent.
   */
  resume?(pod: Pod): Promise<void>;
  /**
   * Stops the pod within the grace period and releases its resources. Resolves when nothing of it is left. Called again during
   * the first call if the user shortens the grace period.
   */
  remove(pod: Pod, graceSeconds: number, signal: AbortSignal): Promise<void>;
  /**
   * Optional: called when the pod is terminal in the API (Succeeded or Failed), whichever client set that. Stops whatever is
   * still running within the grace period, and keeps the pod's logs until `remove`. Must be idempotent. Called for a pod that
   * the provider has not itself reported as ended, and after a restart of the library for each terminal pod. No `apply`
   * follows. The signal aborts when the pod is to be removed instead. Without this method, the library calls `remove` for pods
   * that may still be running.
   */
  finish?(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Whether the provider has this pod. */
  presence(uid: string): Promise<PodPresence>;
  /** The provider's pods, whether they are still in the API or not. Omits pods of which it is uncertain. */
  list(): Promise<
    readonly { readonly uid: string; readonly namespace: string; readonly name: string }[]
  >;
  /** Removes a pod that is no longer in the API, at once. A `remove` of it may still be running. */
  removeUnknown(uid: string): Promise<void>;
  nodeFacts(): Promise<NodeFacts>;
  /**
   * Optional: the resources of this pod's machine, if a node has several machines. They are the value of a `resourceFieldRef`
   * for a limit that is not set. @default the node's resources
   */
  podAllocatable?(pod: Pod): Promise<Readonly<Record<string, string>>>;
  /** Whether it sets variables from files of the pod (`fileKeyRef`). @default false: such a container waits */
  readonly readsEnvFiles?: boolean | undefined;
  /**
   * Whether it starts the other containers of a pod while {@link ResolvedPod.missingEnv} holds some back, as a kubelet does. An
   * init container may create what they wait for. The same goes for {@link ResolvedPod.missingFiles}. @default false: the whole
   * pod waits
   */
  readonly holdsBackContainers?: boolean | undefined;
  /** Throws, or does not return, if the provider cannot work. */
  ping(signal: AbortSignal): Promise<void>;
  /** Optional: `kubectl logs`. Ends with the log. With `follow`, ends only when `signal` aborts. */
  logs?(pod: Pod, container: string, options: LogOptions, signal: AbortSignal): Promise<Readable>;
  /** Whether its logs distinguish standard output from standard error (KEP-3288). @default false */
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
  /** Optional: present usage of the pods, for `kubectl top`, autoscalers and `/metrics`. */
  stats?(signal: AbortSignal): Promise<ProviderStats>;
  /** Optional: results of container probes, for `/metrics/probes`. */
  probes?(signal: AbortSignal): Promise<readonly ProbeCounts[]>;
  /** Optional: a log of the node itself, at `/logs/PATH` of the kubelet API. Undefined if there is no log with this path. */
  nodeLog?(path: string, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Optional: the provider's own metrics for `/metrics`, with its own names. Must return at once, because it is called for each
   * request.
   */
  metricFamilies?(): readonly MetricFamily[];
}

/** Names of the optional calls of a provider. */
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
