import type { waitForAgent } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import type { ApiClient } from "@kip/k8s-client";
import type { Tracer } from "@kip/virtual-kubelet/telemetry";
import type { ProviderConfig } from "./config/provider-config.ts";

/** Options of `startKip()`. */
export interface StartKipOptions {
  readonly client: ApiClient;
  /** Acts as the virtual node, by `createNodeUserClient`, to evict its pods. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly driver: CloudDriver;
  readonly config: ProviderConfig;
  readonly controllerID: string;
  /** ID of the cluster, if it differs from the installation's. @default `controllerID` */
  readonly clusterID?: string | undefined;
  readonly nodeName: string;
  /** Addresses of the virtual node, at most one of each IP family. The kubelet port is open at the first one. */
  readonly nodeIps: readonly string[];
  /** Namespace of kip's own Secret. @default "kip-system" */
  readonly namespace?: string | undefined;
  readonly clusterDns: readonly string[];
  /** @default "cluster.local" */
  readonly clusterDomain?: string | undefined;
  /** Folder for the logs of finished pods. */
  readonly logDir: string;
  /** Records the time of each step of a pod's cell. @default none */
  readonly tracer?: Tracer | undefined;
  /** Connects to the agent of a cell. @default `waitForAgent` */
  readonly dial?: typeof waitForAgent | undefined;
  /** Where to look for credential helpers. @default the process's `PATH` */
  readonly path?: string | undefined;
  /** Cancels the start and everything that was started, which still has to be disposed of. @default never */
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}
