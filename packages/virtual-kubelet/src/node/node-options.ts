import type { Clock, Logger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { KubeletApiOptions, KubeletTls } from "../kubelet-api/index.ts";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider } from "../pod-provider.ts";
import type { Tracer } from "../tracing.ts";

/** A taint that keeps pods away which do not tolerate it. */
export interface NodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

/** Options of {@link startNode}. */
export interface NodeOptions {
  readonly client: ApiClient;
  /**
   * Makes the requests for which the rights of a kubelet are enough, by {@link createNodeUserClient}: it reads what pods refer to, gets
   * their tokens and certificates, writes their statuses and deletes them, creates the Node, and requests its certificate. It watches each Secret and each ConfigMap by itself, as
   * only that is allowed to a kubelet; the watches share HTTP/2 connections.
   *
   * @default `client`, which watches Secrets and ConfigMaps of whole namespaces
   */
  readonly nodeClient?: ApiClient | undefined;
  /** Name of the Node object, and of its Lease. */
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** Name of the provider: value of the taint. @default "kip" */
  readonly providerName?: string | undefined;
  /** Taints of the node. @default `virtual-kubelet.io/provider=<providerName>:NoSchedule` */
  readonly taints?: readonly NodeTaint[] | undefined;
  /** @default "linux" */
  readonly os?: "linux" | "windows" | undefined;
  /** Architecture of the pods' machines, as Go spells it. @default "amd64" */
  readonly arch?: string | undefined;
  /** `status.nodeInfo.kubeletVersion`. @default "v1.34.0-kip" */
  readonly kubeletVersion?: string | undefined;
  /** The kubelet HTTPS API, which the library then serves. Absent: none is served. */
  readonly kubelet?: Omit<KubeletApiOptions, "handlers" | "clock" | "logger"> | undefined;
  /**
   * Reads the certificates of `kubelet` again, each minute. What has changed is used for connections from
   * then on; if it fails or gives what cannot be used, the old ones stay and an error is logged. A
   * certificate that the cluster issued stays. @default they are not read again
   */
  readonly reloadTls?: (() => Promise<KubeletTls>) | undefined;
  /**
   * Whether the cluster is asked for the kubelet API's certificate (a CertificateSigningRequest), and for its successors. Until it is
   * approved, `kubelet.certificate` serves. @default false
   */
  readonly requestCertificate?: boolean | undefined;
  /** Who is to sign that certificate, of those that the API server trusts. @default `kubernetes.io/kubelet-serving` */
  readonly certificateSigner?: string | undefined;
  /** Port of a kubelet API that the caller serves; ignored with `kubelet`. */
  readonly kubeletPort?: number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervals?: Partial<NodeIntervals> | undefined;
  /**
   * Whether a Lease is the node's heartbeat. Without one its status is, written after each ping.
   * @default true
   */
  readonly lease?: boolean | undefined;
  /**
   * Called when a write of the node's status failed (a deleted Node is registered again without it).
   * If it resolves, the write is tried once more; if it throws, its error is logged instead.
   */
  readonly onStatusError?: ((error: unknown, signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * Whether environment variables are resolved. If not, `ResolvedPod.env` is empty, nothing that only
   * the environment refers to is looked up, and the provider reads the pod's own `env` and `envFrom`.
   * @default true
   */
  readonly resolveEnv?: boolean | undefined;
  /** Traces the steps of pods. @default none */
  readonly tracer?: Tracer | undefined;
  /** Where the node counts what it does; also shown at `/metrics` of the kubelet API. */
  readonly metrics?: NodeMetrics | undefined;
  /**
   * Ends the node, also while it starts; it must be disposed of all the same. It ends at once: to have the
   * terminal statuses of its pods written, dispose of it instead.
   */
  readonly signal?: AbortSignal | undefined;
}

/** Intervals and time limits of a node, milliseconds. */
export interface NodeIntervals {
  /** Pings of the provider. @default 10000 */
  readonly pingMs: number;
  /** Renewals of the Lease; below its duration. @default a quarter of `leaseDurationMs` */
  readonly leaseMs: number;
  /** How long the Lease is valid, whole seconds. @default four times `leaseMs`, 40000 */
  readonly leaseDurationMs: number;
  /**
   * How long a ping may take before the provider counts as failing, and how long it has to say what
   * pods it has. @default 30000
   */
  readonly pingTimeoutMs: number;
  /** Writes of an unchanged node status. @default 300000 */
  readonly statusMs: number;
  /** Comparisons of the API's pods with the provider's, both ways. @default 60000 */
  readonly sweepMs: number;
  /** First pause after a pod's call failed; it doubles. @default 500 */
  readonly podBackoffMs: number;
  /** Longest pause after a pod's call failed. @default 60000 */
  readonly podBackoffMaxMs: number;
  /** How long a call of the provider may take before it is reported on its pod. @default 60000 */
  readonly slowCallMs: number;
}

/** A node that is registered and runs pods. Disposing it leaves its pods running. */
export interface RunningNode extends AsyncDisposable {
  /** Port of the kubelet API, if one is served. */
  readonly kubeletPort: number | undefined;
  /** Takes other certificates of the kubelet API into use. @throws VK_TLS_INVALID */
  replaceTls(tls: KubeletTls): void;
  /** Pods bound to the node, as the API server has them. */
  pods(): readonly Pod[];
  findPod(namespace: string, name: string, uid?: string): Pod | undefined;
  /** Compares the API's pods with the provider's now. Resolves when the differences are being repaired. */
  sweep(): Promise<void>;
}
