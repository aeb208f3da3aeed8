// For authors of providers. Other entry points of the package have more, for programs and tests.

// The provider and its errors
export { VirtualKubeletError, type VirtualKubeletErrorCode } from "./errors.ts";
export type {
  LogOptions,
  NodeFacts,
  PodEvent,
  PodPresence,
  PodProvider,
  PodStatusUpdate,
  ProcessExit,
  ProviderCallbacks,
  ResolvedPod,
  VolumeFile,
} from "./pod-provider.ts";
export type { PodUsage, ProbeCounts, ProviderStats } from "./usage.ts";
export type { PolledPodProvider } from "./polling/polled-provider.ts";
export { pollProvider } from "./polling/poll-provider.ts";
export type { ProviderFactory, ProviderSetup } from "./command/provider-store.ts";

// Parts of providers
export { ContainerLog } from "./logs/container-log.ts";
export { connectPort, connectProcess } from "./providers/connect.ts";
export { PodTable } from "./providers/pod-table.ts";
export { containerStatus } from "./status/container-statuses.ts";
export { podConditions } from "./status/pod-conditions.ts";
export { podStatus, type ContainerRun } from "./status/pod-status.ts";

// The node
export { startNode } from "./node/start-node.ts";
export { keepKnownNode, type KnownNodeOptions } from "./node/node-lease.ts";
export {
  checkNodeUser,
  createNodeUserClient,
  type NodeUserClientOptions,
} from "./references/node-user.ts";
export type { NodeOptions, RunningNode } from "./node/node-options.ts";
export {
  startStandbyNode,
  type StandbyNode,
  type StandbyNodeOptions,
} from "./node/standby-node.ts";
export { delegatedAccess, type KubeletApiOptions } from "./kubelet-api/index.ts";

// Re-exported from other packages, so that this package is enough
export { createLogger, systemClock, type Clock, type Logger, type ProcessStreams } from "@kip/base";
export { createApiClient, loadKubeConfig, wireTime, type ApiClient } from "@kip/k8s-client";
export type { ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";
