export { applyUserData, type ApplyResult, type ApplyUserDataOptions } from "./apply-user-data.ts";
export { createEc2Source, ImdsClient, type ImdsClientOptions } from "./ec2.ts";
export { CloudInitError, type CloudInitErrorCode } from "./errors.ts";
export type { DataSource, InstanceAddresses, InstanceData } from "./instance-data.ts";
export { readNoCloudSeed, type NoCloudSeed } from "./no-cloud.ts";
export { maxUserDataBytes, parseUserData, type CloudConfig, type WriteFile } from "./user-data.ts";
export {
  maxCloneOrderBytes,
  orderLine,
  parseOrder,
  userDataFields,
  userDataOf,
  clonePort,
  cloneMessages,
  templateArgument,
  type ImagePreload,
  type Order,
  type CloneIdentity,
} from "./clone-order.ts";
