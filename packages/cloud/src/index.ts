export type { Architecture } from "@kip/instance-types";
export type {
  CloudDriver,
  Instance,
  InstanceIpv6,
  InstanceState,
  InstanceTypeOffer,
  InterruptionNotice,
  LaunchExtra,
  LaunchRequest,
  LaunchType,
  LaunchImages,
  LaunchWait,
  NetworkFacts,
  PrepareImagesRequest,
  ServiceSource,
  ServiceSubscription,
  Volume,
  VolumeRequest,
} from "./cloud-driver.ts";
export type { ChangeTerm } from "./change-term.ts";
export type { DedicatedHost, DedicatedHosts, HostRelease } from "./dedicated-hosts.ts";
export {
  CloudError,
  cloudErrorCode,
  cloudErrorCodes,
  type CapacityScope,
  type CloudErrorCode,
  type CloudErrorOptions,
} from "./errors.ts";
export {
  checkInstanceTags,
  checkLaunchRequest,
  checkRootDiskSize,
  checkVolumeRequest,
  cloudLimits,
} from "./limits.ts";
export { cloudOperations, type CloudOperation } from "./operations.ts";
export { wrapOperations, type CloudCall } from "./wrap-operations.ts";
export {
  givesRegistryLogIns,
  type RegistryLogIn,
  type RegistryLogIns,
} from "./registry-log-ins.ts";
