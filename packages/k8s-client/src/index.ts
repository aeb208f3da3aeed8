export type {
  ApiClient,
  DeleteOptions,
  KubeObject,
  ObjectList,
  PatchOptions,
  PatchType,
  Query,
  RawRequestOptions,
  RawResponse,
  RequestOptions,
  StreamOptions,
} from "./api-client.ts";
export { dropManagedFields } from "./drop-managed-fields.ts";
export { createApiClient, type ApiClientOptions } from "./create-api-client.ts";
export {
  createEventRecorder,
  referenceTo,
  type EventRecorder,
  type EventRecorderOptions,
  type EventReference,
  type RecordedEvent,
} from "./event-recorder.ts";
export {
  createInformer,
  type Informer,
  type InformerEvent,
  type InformerOptions,
} from "./informer.ts";
export {
  loadKubeConfig,
  type Credentials,
  type KubeConfig,
  type LoadKubeConfigOptions,
} from "./kubeconfig.ts";
export {
  createLeaderLease,
  type LeaderLease,
  type LeaderLeaseOptions,
  type LeaderTerm,
} from "./leader-lease.ts";
export { createLeaseHolder, type LeaseHolder, type LeaseHolderOptions } from "./lease.ts";
export { clusterWide, namespaced, paths, type ClusterPath, type NamespacedPath } from "./paths.ts";
export {
  requestToken,
  type ServiceAccountToken,
  type TokenRequestOptions,
} from "./token-request.ts";
export { microTime, wireTime } from "./wire-time.ts";
