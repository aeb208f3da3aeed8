import type { waitForAgent } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { ApiClient } from "@kip/k8s-client";
import type { Tracer } from "@kip/virtual-kubelet/telemetry";
import type { ProviderConfig } from "./config/provider-config.ts";

/** Options of `startKip()`. */
export interface StartKipOptions {
  readonly client: ApiClient;
  /** Acts as the virtual node, by `createNodeUserClient`: evicts its pods. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly driver: CloudDriver;
  readonly config: ProviderConfig;
  readonly controllerID: string;
  /** ID of the cluster, if that is not the installation's. @default `controllerID` */
  readonly clusterID?: string | undefined;
  readonly nodeName: string;
  /** Addresses of the virtual node, at most one of each family; the kubelet port is reached at the first one. */
  readonly nodeIps: readonly string[];
  /** Namespace of kip's own Secret. @default "kip-system" */
  readonly namespace?: string | undefined;
  readonly clusterDns: readonly string[];
  /** @default "cluster.local" */
  readonly clusterDomain?: string | undefined;
  /** Directory for the logs of finished pods. */
  readonly logDir: string;
  /** Takes the time of each step of a pod's cell. @default none */
  readonly tracer?: Tracer | undefined;
  /** Connects to the agent of a cell. @default `waitForAgent` */
  readonly dial?: typeof waitForAgent | undefined;
  /** Where credential helpers are looked for. @default the process's own */
  readonly path?: string | undefined;
  /** Ends the start, and what was started: to be disposed of nevertheless. @default never */
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}
