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
} from "./client/api-client.ts";
export {
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isNotFound,
  K8sError,
  type K8sErrorCode,
  type K8sErrorOptions,
} from "./errors.ts";
export { dropManagedFields } from "./watch/drop-managed-fields.ts";
export { matchesLabels, type Labels } from "./client/label-selector.ts";
export { wrapRequests } from "./client/wrap-requests.ts";
export { createApiClient, type ApiClientOptions } from "./client/create-api-client.ts";
export {
  createEventRecorder,
  referenceTo,
  type EventRecorder,
  type EventRecorderOptions,
  type EventReference,
  type RecordedEvent,
} from "./events/event-recorder.ts";
export {
  createInformer,
  type Informer,
  type InformerEvent,
  type InformerOptions,
} from "./watch/informer.ts";
export {
  loadKubeConfig,
  type Credentials,
  type KubeConfig,
  type LoadKubeConfigOptions,
} from "./kubeconfig/kubeconfig.ts";
export {
  createLeaderLease,
  type LeaderLease,
  type LeaderLeaseOptions,
  type LeaderTerm,
} from "./lease/leader-lease.ts";
export { fencedClient } from "./lease/fenced-client.ts";
export { createLeaseHolder, type LeaseHolder, type LeaseHolderOptions } from "./lease/lease.ts";
export {
  clusterWide,
  namespaced,
  paths,
  type ClusterPath,
  type NamespacedPath,
} from "./client/paths.ts";
export {
  requestToken,
  type ServiceAccountToken,
  type TokenRequestOptions,
} from "./client/token-request.ts";
export { microTime, wireTime } from "./client/wire-time.ts";
export { actAs, type ActingUser } from "./kubeconfig/act-as.ts";
