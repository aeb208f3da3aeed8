import type { Clock, Logger } from "@kip/base";
import type { ApiClient } from "./api-client.ts";
import type { KubeConfig } from "./kubeconfig.ts";

/** Options of {@link createApiClient}. */
export interface ApiClientOptions {
  /** Sent with each request, for example `kip/0.1.0`. The part before "/" is the field manager. */
  readonly userAgent: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Connections for requests at most; watches and streams have their own. @default 32 */
  readonly maxConnections?: number;
  /** Requests per second at most, watches and streams aside. @default no limit: the server has its own */
  readonly qps?: number;
}

/** A client over kept-alive HTTP/1.1 connections. */
export function createApiClient(config: KubeConfig, options: ApiClientOptions): ApiClient {
  void config;
  void options;
  throw new Error("Not built yet");
}
