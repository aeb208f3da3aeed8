export {
  addressNumber,
  addressText,
  canonicalAddress,
  contains,
  ipFamily,
  outermost,
  parseCidr,
  type Cidr,
  type IpFamily,
} from "./address.ts";
export { ChangeReader, type ViewChange } from "./change-reader.ts";
export type { Protocol } from "./decoders.ts";
export { endpointText, parseEndpoint, textFamily, type Endpoint } from "./endpoint.ts";
export { limits } from "./limits.ts";
export {
  groupsOf,
  hasShortLists,
  hasTiers,
  policyVersion,
  type PolicyBlock,
  type PolicyPort,
  type PolicyRule,
  type PolicyView,
  type RuleAction,
  type TierRule,
  type TierView,
} from "./policy-view.ts";
export type { HealthCheckView, ServicePortView, ServiceView } from "./service-view.ts";
export { bucketCount, bucketOf, decodeSums, TableDigest, unknownSums } from "./table-digest.ts";
export { decodeLine, encodeLine, type GroupLine, type ViewLine } from "./view-line.ts";
