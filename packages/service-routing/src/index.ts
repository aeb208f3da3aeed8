export { NetworkRules, type NetworkChange, type NetworkRulesOptions } from "./network-rules.ts";
export type { RoutingPlace } from "./routing-place.ts";
export type { ServiceChanges } from "./services.ts";
export { conntrackArguments, type StaleFlows } from "./stale-flows.ts";
