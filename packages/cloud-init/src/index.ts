export { isApplied, noteApplied, type RecordOptions } from "./apply/applied-record.ts";
export {
  applyUserData,
  defaultWorkspace,
  type ApplyResult,
  type ApplyUserDataOptions,
} from "./apply/apply-user-data.ts";
export { createAzureSource, type AzureOptions } from "./azure.ts";
export {
  emptyConfig,
  maxUserDataBytes,
  type CloudConfig,
  type CloudScript,
  type CloudUser,
  type WriteFile,
} from "./config/cloud-config.ts";
export {
  checkCloudConfig,
  parseUserData,
  type CheckedCloudConfig,
  type ParseUserDataOptions,
  type PlacedConfigNote,
} from "./config/parse-user-data.ts";
export { cloudConfigKeys } from "./config/read-cloud-config.ts";
export { createEc2Source, ImdsClient, type ImdsClientOptions } from "./ec2.ts";
export { CloudInitError, type CloudInitErrorCode } from "./errors.ts";
export { findSource, type FindSourceOptions } from "./find-source.ts";
export { createGceSource } from "./gce.ts";
export type { DataSource, InstanceAddresses, InstanceData } from "./instance-data.ts";
export { MetadataHttp, type MetadataHttpOptions } from "./metadata-http.ts";
export { createNoCloudSource, readNoCloudSeed } from "./no-cloud.ts";
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
