import type { Clock, Logger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import type { PodProvider } from "../pod-provider.ts";
import type { KubeletAuthenticate, KubeletAuthorize } from "./access/user.ts";

/** PEM texts of the server; all of them can be replaced while it runs. */
export interface KubeletTls {
  /** The server's certificate, followed by its intermediates if any. */
  readonly certificate: string;
  readonly key: string;
  /** Certificates of the authorities whose client certificates are accepted. */
  readonly clientCa: string;
}

/**
 * Options of the kubelet API. The optional calls are those of {@link PodProvider}; without one, its routes answer
 * 501.
 */
export interface KubeletHandlers extends Pick<
  PodProvider,
  "logs" | "hasLogStreams" | "exec" | "attach" | "portForward" | "stats" | "probes" | "nodeLog"
> {
  /** Name of the Node object. */
  readonly nodeName: string;
  /** The pods bound to this node, as the API server has them. */
  pods(): Promise<readonly Pod[]> | readonly Pod[];
  /** The pods the provider runs. */
  runningPods(): Promise<readonly Pod[]> | readonly Pod[];
  /** A pod of this node; with a `uid`, only if it is that very pod. */
  findPod(namespace: string, name: string, uid?: string): Pod | undefined;
  /** Optional: throws if the node cannot do its work; check `syncloop` of `/healthz`. */
  checkHealth?(): Promise<void> | void;
  /** Optional: more of `/metrics`, in Prometheus' text format. */
  metrics?(): Promise<string> | string;
  /** Optional: more fields of the KubeletConfiguration that `/configz` shows. */
  config?(): Readonly<Record<string, unknown>>;
}

/** Bounds on what one client can make the server hold. */
export interface KubeletLimits {
  /**
   * Most open TCP connections. For one more, the oldest is closed whose client is not authenticated yet; if there is
   * none, the new one. @default 1000
   */
  readonly connections: number;
  /**
   * Most connections for exec, attach, port-forward and logs of one pod; a further one is refused with 429. @default 250
   */
  readonly podConnections: number;
  /** The same for all pods; the others are left for requests that end by themselves. @default 900 */
  readonly allPodConnections: number;
  /** Bytes of request line and headers of an HTTP request of a client without a certificate. @default 32768 */
  readonly requestHeaderBytes: number;
  /**
   * The same for a client with a certificate of `clientCa`, as the API server has one: the command of
   * an exec comes in the request line. @default 1048576, as in a kubelet
   */
  readonly longRequestHeaderBytes: number;
  /**
   * Connections that may have the longer limit before a request of theirs was authorised. For one
   * more the oldest of them is closed. @default 64
   */
  readonly unprovenLongConnections: number;
  /**
   * Bytes of the heads above `requestHeaderBytes` of all requests under way; a further one is refused
   * with 429. @default 67108864
   */
  readonly longRequestBytes: number;
  /** Streams open at once on one connection; further ones are refused. @default 512 */
  readonly streamsPerConnection: number;
  /**
   * Streams open at once on all connections; further ones are refused, but the first 8 of a connection are not.
   * @default 10000
   */
  readonly allStreams: number;
  /** Bytes of a stream's header block, after decompression. @default 16384 */
  readonly streamHeaderBytes: number;
  /** Bytes of a WebSocket message; a longer one closes its connection. @default 4194304 */
  readonly messageBytes: number;
  /** Bytes a stream holds that its reader has not taken, before its connection is held up. @default 1048576 */
  readonly streamBufferBytes: number;
  /** The same for all streams of a connection. @default 4194304 */
  readonly connectionBufferBytes: number;
  /**
   * The same for all connections. One may hold an eighth of what is left of this, and 65536 bytes in any case.
   * @default 67108864
   */
  readonly allBufferBytes: number;
}

/** Options of `startKubeletApi`. */
export interface KubeletApiOptions extends KubeletTls {
  /** Address to listen on. @default all addresses */
  readonly host?: string | undefined;
  /** TCP port; 0 takes a free one. @default 10250 */
  readonly port?: number | undefined;
  readonly handlers: KubeletHandlers;
  /**
   * Common names of client certificates that are let in. Used by the default `authorize` only.
   * @default every certificate that `clientCa` signed for client authentication
   */
  readonly allowedUsers?: readonly string[] | undefined;
  /** @default the client certificate, verified against `clientCa`; no anonymous access */
  readonly authenticate?: KubeletAuthenticate | undefined;
  /** @default the users of `allowedUsers` */
  readonly authorize?: KubeletAuthorize | undefined;
  readonly limits?: Partial<KubeletLimits> | undefined;
  /** Milliseconds without any frame from the client before a stream connection is closed. @default 4 hours */
  readonly streamIdleTimeoutMs?: number | undefined;
  /** Milliseconds a client has to open the streams it asked for. @default 30 seconds */
  readonly streamCreationTimeoutMs?: number | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** A kubelet API that listens. Disposing it ends all connections and running requests. */
export interface RunningKubeletApi extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
  /** Takes new certificates into use for connections made from now on. @throws VK_TLS_INVALID */
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
