export {
  VirtualKubeletError,
  type VirtualKubeletErrorCode,
  type VirtualKubeletErrorOptions,
} from "./errors.ts";
export {
  optionalCalls,
  type LogOptions,
  type NodeFacts,
  type OptionalCalls,
  type PodEvent,
  type PodPresence,
  type PodProvider,
  type PodStatusUpdate,
  type ProcessExit,
  type ProviderCallbacks,
  type ResolvedPod,
  type VolumeFile,
} from "./pod-provider.ts";
export {
  defaultKubeletLimits,
  delegatedAccess,
  startKubeletApi,
  type DelegatedAccessOptions,
  type KubeletAction,
  type KubeletApiOptions,
  type KubeletAuthenticate,
  type KubeletAuthorize,
  type KubeletHandlers,
  type KubeletLimits,
  type KubeletTls,
  type KubeletUser,
  type RunningKubeletApi,
} from "./kubelet-api/index.ts";
export { expandSubPath, expandVariables, ExpansionBudget } from "./environment/expand-variables.ts";
export type { NodeIntervals, NodeOptions, NodeTaint, RunningNode } from "./node/node-options.ts";
export { ServingTls, type ServingTlsOptions } from "./node/serving-tls.ts";
export { startNode } from "./node/start-node.ts";
export { bindLateEnv, type LateAddresses } from "./environment/late-env.ts";
export { mergeConditions, type ConditionVerdict } from "./status/conditions.ts";
export { containerStatus, goneStatuses, waitingStatuses } from "./status/container-statuses.ts";
export { podStatus, type ContainerRun, type PodFacts } from "./status/pod-status.ts";
export { podConditions, type PodConditionFacts } from "./status/pod-conditions.ts";
export { qosClass } from "./status/qos-class.ts";
export { ContainerLog, type ContainerLogOptions } from "./logs/container-log.ts";
export { connectPort, connectProcess } from "./providers/connect.ts";
export { PodTable } from "./providers/pod-table.ts";
export { pollProvider, type PollOptions } from "./polling/poll-provider.ts";
export type { PolledPodProvider } from "./polling/polled-provider.ts";
export {
  startStandbyNode,
  type StandbyNode,
  type StandbyNodeOptions,
  type StandbyOptions,
} from "./node/standby-node.ts";
export type {
  ContainerUsage,
  NetworkUsage,
  PodUsage,
  ProbeCounts,
  ProviderStats,
  Usage,
} from "./usage.ts";
export { NodeMetrics, type PodCounts } from "./metrics/node-metrics.ts";
export { ProviderStore, type ProviderFactory, type ProviderSetup } from "./provider-store.ts";
// What a provider and its program need of the packages below, so that one package is enough.
export {
  createLogger,
  silentLogger,
  systemClock,
  type Clock,
  type Logger,
  type ProcessStreams,
} from "@kip/base";
export { createApiClient, loadKubeConfig, wireTime, type ApiClient } from "@kip/k8s-client";
export type { Container, ContainerStatus, Node, Pod, PodStatus } from "@kip/k8s-types";
export { noTracer, type Span, type SpanFields, type Tracer } from "./tracing.ts";
