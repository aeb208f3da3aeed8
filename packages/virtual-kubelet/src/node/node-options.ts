import type { Clock, Logger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { KubeletApiOptions, KubeletTls } from "../kubelet-api/index.ts";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider } from "../pod-provider.ts";
import type { Tracer } from "../tracing.ts";

/** A taint that repels pods without a matching toleration. */
export interface NodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

/** Options of {@link startNode}. */
export interface NodeOptions {
  readonly client: ApiClient;
  /**
   * A client with the rights of a kubelet, from {@link createNodeUserClient}. It makes all requests for which those rights
   * suffice: reading what pods refer to, requesting their tokens and certificates, writing their statuses, deleting them,
   * creating the Node, and requesting its certificate. It uses a separate watch for each Secret and ConfigMap, because a
   * kubelet is not allowed more. The watches share HTTP/2 connections.
   *
   * @default `client`, which watches Secrets and ConfigMaps of whole namespaces
   */
  readonly nodeClient?: ApiClient | undefined;
  /** Name of the Node object, and of its Lease. */
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** The provider's name, used as the taint's value. @default "kip" */
  readonly providerName?: string | undefined;
  /** Taints of the node. @default `virtual-kubelet.io/provider=<providerName>:NoSchedule` */
  readonly taints?: readonly NodeTaint[] | undefined;
  /** @default "linux" */
  readonly os?: "linux" | "windows" | undefined;
  /** Architecture of the pods' machines, in Go's spelling. @default "amd64" */
  readonly arch?: string | undefined;
  /** `status.nodeInfo.kubeletVersion`. @default "v1.34.0-kip" */
  readonly kubeletVersion?: string | undefined;
  /** Options of the kubelet's HTTPS API that the library serves. Absent: it serves none. */
  readonly kubelet?: Omit<KubeletApiOptions, "handlers" | "clock" | "logger"> | undefined;
  /**
   * Rereads the certificates of `kubelet` every minute. New connections use what has changed. If it fails or returns invalid
   * certificates, the old ones stay in use and an error is logged. Does not replace a certificate that the cluster issued.
   * @default they are not reread
   */
  readonly reloadTls?: (() => Promise<KubeletTls>) | undefined;
  /**
   * Whether to request the kubelet API's certificate, and later ones, from the cluster (with a CertificateSigningRequest).
   * `kubelet.certificate` is used until a request is approved. @default false
   */
  readonly requestCertificate?: boolean | undefined;
  /** The certificate's signer, which the API server must trust. @default `kubernetes.io/kubelet-serving` */
  readonly certificateSigner?: string | undefined;
  /** Port of a kubelet API that the caller serves. Ignored if `kubelet` is set. */
  readonly kubeletPort?: number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervals?: Partial<NodeIntervals> | undefined;
  /** Whether the node's heartbeat is a Lease. If not, it is the status, which is written after each ping. @default true */
  readonly lease?: boolean | undefined;
  /**
   * Called when writing the node's status failed, except for a deleted Node, which is registered again. If this resolves, the
   * write is repeated once. If it throws, its error is logged instead.
   */
  readonly onStatusError?: ((error: unknown, signal: AbortSignal) => Promise<void>) | undefined;
  /**
   * Whether to resolve environment variables. If not, `ResolvedPod.env` is empty, objects that only the environment refers to
   * are not read, and the provider reads the pod's own `env` and `envFrom`. @default true
   */
  readonly resolveEnv?: boolean | undefined;
  /** Traces the steps of pods. @default none */
  readonly tracer?: Tracer | undefined;
  /** The node's metrics, which are also shown at `/metrics` of the kubelet API. */
  readonly metrics?: NodeMetrics | undefined;
  /**
   * Ends the node at once, even while it is starting. The node must still be disposed of. Disposing alone also writes the
   * terminal statuses of its pods.
   */
  readonly signal?: AbortSignal | undefined;
}

/** Intervals and time limits of a node, milliseconds. */
export interface NodeIntervals {
  /** Interval of pings of the provider. @default 10000 */
  readonly pingMs: number;
  /** Interval of the Lease's renewals, below its duration. @default a quarter of `leaseDurationMs` */
  readonly leaseMs: number;
  /** How long the Lease is valid, whole seconds. @default four times `leaseMs`, 40000 */
  readonly leaseDurationMs: number;
  /** Time limit for a ping, after which the provider counts as failing, and for listing its pods. @default 30000 */
  readonly pingTimeoutMs: number;
  /** Interval of writing an unchanged node status. @default 300000 */
  readonly statusMs: number;
  /** Interval of comparing the API's pods with the provider's. @default 60000 */
  readonly sweepMs: number;
  /** First pause after a failed call for a pod. It doubles each time. @default 500 */
  readonly podBackoffMs: number;
  /** Longest pause after a failed call for a pod. @default 60000 */
  readonly podBackoffMaxMs: number;
  /** How long a call of the provider may take before it is reported on its pod. @default 60000 */
  readonly slowCallMs: number;
}

/** A registered node that runs pods. Disposing it leaves its pods running. */
export interface RunningNode extends AsyncDisposable {
  /** Port of the kubelet API, if one is served. */
  readonly kubeletPort: number | undefined;
  /** Replaces the certificates of the kubelet API. @throws VK_TLS_INVALID */
  replaceTls(tls: KubeletTls): void;
  /** Pods bound to the node, according to the API server. */
  pods(): readonly Pod[];
  findPod(namespace: string, name: string, uid?: string): Pod | undefined;
  /** Compares the API's pods with the provider's now. Resolves once repairs of all differences have started. */
  sweep(): Promise<void>;
}
