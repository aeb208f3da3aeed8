export {
  explainNetwork,
  type NetworkQuestion,
  type NetworkTarget,
} from "./explain/explain-network.ts";
export type { ViewNode } from "./services/usable-endpoints.ts";
export {
  NetworkViews,
  type NetworkViewsOptions,
  type ViewSubscription,
} from "./views/network-views.ts";
export {
  watchClusterNetwork,
  type ClusterNetworkWatch,
  type WatchClusterNetworkOptions,
} from "./watch/watch-cluster-network.ts";
