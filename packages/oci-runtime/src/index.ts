export type {
  ContainerExit,
  ContainerRuntime,
  ContainerState,
  ContainerStats,
  ExecOptions,
  ExecResult,
} from "./container-runtime.ts";
export type {
  ContainerMount,
  ContainerResources,
  ContainerSpec,
  ContainerUser,
} from "./container-spec.ts";
export { RuntimeError, type RuntimeErrorCode } from "./errors.ts";
export { createRuntime, type RuntimeOptions } from "./crun-runtime.ts";
export { readLog, type LogReadOptions } from "./logs/read-log.ts";
export {
  createPodSandbox,
  preparePodSandbox,
  removePodSandbox,
  type PodSandbox,
  type PodSandboxOptions,
} from "./sandbox/pod-sandbox.ts";
export type { PreparedSandbox } from "./sandbox/prepared-sandbox.ts";
