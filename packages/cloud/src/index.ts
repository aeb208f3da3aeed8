export type {
  CloudDriver,
  Instance,
  InstanceState,
  InstanceTypeOffer,
  LaunchRequest,
  LaunchType,
  NetworkFacts,
} from "./cloud-driver.ts";
export {
  CloudError,
  cloudErrorCode,
  type CapacityScope,
  type CloudErrorCode,
  type CloudErrorOptions,
} from "./errors.ts";
