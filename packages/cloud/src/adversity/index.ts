export {
  adverseCloud,
  type AdverseCloudOptions,
  type AdversityRuleStore,
} from "./adverse-cloud.ts";
export { decodeAdversityRules, type AdversityRule } from "./adversity-rules.ts";
export {
  cloudOperations,
  type CloudAdversity,
  type CloudFault,
  type CloudOperation,
  type SlowLaunch,
  type Throttling,
} from "./cloud-adversity.ts";
export { createAdversity, type AdversityOptions } from "./create-adversity.ts";
