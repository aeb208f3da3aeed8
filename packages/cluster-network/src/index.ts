export { explainNetwork, type NetworkQuestion } from "./explain/explain-network.ts";
export type { Finding, Outcome } from "./explain/finding.ts";
export { listCluster, type ListClusterOptions } from "./explain/list-cluster.ts";
export type { ClusterObjects } from "./explain/cluster-objects.ts";
export { zoneLabel, type ViewNode } from "./services/usable-endpoints.ts";
export {
  NetworkViews,
  type NetworkViewsOptions,
  type ViewSubscription,
} from "./views/network-views.ts";
export { installedTiers, type InstalledTier } from "./watch/installed-tiers.ts";
export {
  watchClusterNetwork,
  type ClusterNetworkWatch,
  type WatchClusterNetworkOptions,
} from "./watch/watch-cluster-network.ts";
