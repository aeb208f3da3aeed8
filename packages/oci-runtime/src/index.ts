export type {
  BlockDeviceUsage,
  CgroupUsage,
  Pressure,
  PressureShare,
} from "./contract/cgroup-usage.ts";
export type {
  ContainerExit,
  ContainerRuntime,
  ContainerState,
  ContainerStats,
  ExecOptions,
  ExecResult,
} from "./contract/container-runtime.ts";
export type {
  ContainerDevice,
  ContainerHook,
  ContainerMount,
  ContainerResources,
  ContainerSpec,
  ContainerUser,
} from "./contract/container-spec.ts";
export type { PodSandbox, UserNamespace } from "./contract/pod-sandbox.ts";
export { RuntimeError, type RuntimeErrorCode } from "./errors.ts";
export { describeDevice } from "./bundle/machine-devices.ts";
export { mountPlace } from "./bundle/mount-places.ts";
export { createRuntime, type RuntimeOptions } from "./runtime/crun-runtime.ts";
export { logUsageBytes } from "./logs/log-files.ts";
export { defaultLogLimits, type LogLimits } from "./logs/log-limits.ts";
export { readLog, type LogReadOptions } from "./logs/read-log.ts";
export { cableName } from "./sandbox/pod-network.ts";
export {
  createPodSandbox,
  preparePodSandbox,
  removePodSandbox,
  type PodSandboxOptions,
} from "./sandbox/pod-sandbox.ts";
export type { PreparedSandbox } from "./sandbox/prepared-sandbox.ts";
