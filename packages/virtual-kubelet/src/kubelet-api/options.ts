import type { Clock, Logger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import type { PodProvider } from "../pod-provider.ts";
import type { KubeletAuthenticate, KubeletAuthorize } from "./access/user.ts";

/** PEM texts for the server. All of them can be replaced while it runs. */
export interface KubeletTls {
  /** The server's certificate, followed by any intermediates. */
  readonly certificate: string;
  readonly key: string;
  /** Certificates of the authorities whose client certificates are accepted. */
  readonly clientCa: string;
}

/** The calls behind the kubelet API. The optional ones are those of {@link PodProvider}. Without one, its routes answer 501. */
export interface KubeletHandlers extends Pick<
  PodProvider,
  "logs" | "hasLogStreams" | "exec" | "attach" | "portForward" | "stats" | "probes" | "nodeLog"
> {
  /** Name of the Node object. */
  readonly nodeName: string;
  /** The pods bound to this node, according to the API server. */
  pods(): Promise<readonly Pod[]> | readonly Pod[];
  /** The pods that the provider runs. */
  runningPods(): Promise<readonly Pod[]> | readonly Pod[];
  /** A pod of this node. With a `uid`, only the pod with this UID. */
  findPod(namespace: string, name: string, uid?: string): Pod | undefined;
  /** Optional: throws if the node cannot work. This is the check `syncloop` of `/healthz`. */
  checkHealth?(): Promise<void> | void;
  /** Optional: additional text for `/metrics`, in Prometheus' text format. */
  metrics?(): Promise<string> | string;
  /** Optional: additional fields of the KubeletConfiguration at `/configz`. */
  config?(): Readonly<Record<string, unknown>>;
}

/** Limits for what clients can make the server hold. */
export interface KubeletLimits {
  /**
   * Most open TCP connections. A further one replaces the oldest one whose client is not authenticated yet. If there is none,
   * the new one is closed. @default 1000
   */
  readonly connections: number;
  /** Most connections for exec, attach, port-forward and logs of one pod. Further ones are refused with 429. @default 250 */
  readonly podConnections: number;
  /** The same for all pods together. The rest is reserved for requests that end by themselves. @default 900 */
  readonly allPodConnections: number;
  /** Limit for the request line and headers of a client without a certificate, bytes. @default 32768 */
  readonly requestHeaderBytes: number;
  /**
   * The same for a client with a certificate of `clientCa`, such as the API server. The request line contains the command of an
   * exec. @default 1048576, as in a kubelet
   */
  readonly longRequestHeaderBytes: number;
  /**
   * Most connections with the longer limit that have not had an authorised request yet. A further one replaces the oldest.
   * @default 64
   */
  readonly unprovenLongConnections: number;
  /**
   * Limit for all request heads above `requestHeaderBytes` together, bytes. Further ones are refused with 429. @default
   * 67108864
   */
  readonly longRequestBytes: number;
  /** Most open streams of one connection. Further ones are refused. @default 512 */
  readonly streamsPerConnection: number;
  /**
   * Most open streams of all connections. Further ones are refused, except the first 8 of a connection.
   * @default 10000
   */
  readonly allStreams: number;
  /** Limit for the decompressed header block of a stream, bytes. @default 16384 */
  readonly streamHeaderBytes: number;
  /** Limit for a WebSocket message, bytes. A longer one closes its connection. @default 4194304 */
  readonly messageBytes: number;
  /** How much a stream may buffer for its reader before its connection pauses, bytes. @default 1048576 */
  readonly streamBufferBytes: number;
  /** The same for all streams of a connection together. @default 4194304 */
  readonly connectionBufferBytes: number;
  /**
   * The same for all connections together. One connection may buffer an eighth of what is left of this, and always 65536 bytes.
   * @default 67108864
   */
  readonly allBufferBytes: number;
}

/** Options of `startKubeletApi`. */
export interface KubeletApiOptions extends KubeletTls {
  /** Address to listen on. @default all addresses */
  readonly host?: string | undefined;
  /** TCP port. 0 uses a free one. @default 10250 */
  readonly port?: number | undefined;
  readonly handlers: KubeletHandlers;
  /**
   * Common names of allowed client certificates. Only used by the default `authorize`. @default all certificates that
   * `clientCa` signed for client authentication
   */
  readonly allowedUsers?: readonly string[] | undefined;
  /** @default by client certificate, verified against `clientCa`, without anonymous access */
  readonly authenticate?: KubeletAuthenticate | undefined;
  /** @default the users of `allowedUsers` */
  readonly authorize?: KubeletAuthorize | undefined;
  readonly limits?: Partial<KubeletLimits> | undefined;
  /**
   * Time without a frame from the client or data for it until a stream connection is closed, milliseconds, or Infinity.
   * @default 4 hours
   */
  readonly streamIdleTimeoutMs?: number | undefined;
  /** Time for a client to open the requested streams, milliseconds. @default 30 seconds */
  readonly streamCreationTimeoutMs?: number | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** A running kubelet API. Disposing it ends all connections and requests. */
export interface RunningKubeletApi extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Uses new certificates for new connections. @throws VK_TLS_INVALID */
  replaceTls(tls: KubeletTls): void;
}

/** @see KubeletLimits */
export const defaultKubeletLimits: KubeletLimits = {
  connections: 1000,
  podConnections: 250,
  allPodConnections: 900,
  requestHeaderBytes: 32 * 1024,
  longRequestHeaderBytes: 1024 * 1024,
  unprovenLongConnections: 64,
  longRequestBytes: 64 * 1024 * 1024,
  streamsPerConnection: 512,
  allStreams: 10_000,
  streamHeaderBytes: 16 * 1024,
  messageBytes: 4 * 1024 * 1024,
  streamBufferBytes: 1024 * 1024,
  connectionBufferBytes: 4 * 1024 * 1024,
  allBufferBytes: 64 * 1024 * 1024,
};
