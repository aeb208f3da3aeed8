export { NetworkRules, type NetworkRulesOptions } from "./network-rules.ts";
export type { RoutingPlace } from "./routing-place.ts";
export { conntrackArguments, type StaleFlows } from "./stale-flows.ts";
