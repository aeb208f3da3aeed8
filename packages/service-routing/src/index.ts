export { NetworkRules, type NetworkRulesOptions } from "./network-rules.ts";
export { openPreparedTables, prepareTables, type PreparedTables } from "./prepared-tables.ts";
export type { RoutingPlace } from "./routing-place.ts";
export { forgetFlows, type ForgetFlowsOptions } from "./connections/forget-flows.ts";
export { egressTables, type EgressPlace } from "./egress-table.ts";
export type { StaleFlows } from "./connections/stale-flows.ts";
export {
  hostPortTables,
  staleHostPortFlows,
  type HostPort,
  type HostPortsPlace,
} from "./host-port-table.ts";
