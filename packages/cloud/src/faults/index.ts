export { faultyCloud, type FaultyCloudOptions, type FaultRuleStore } from "./faulty-cloud.ts";
export { decodeFaultRules, type FaultRule } from "./fault-rules.ts";
export {
  type CloudFaults,
  type CloudFault,
  type SlowLaunch,
  type Throttling,
} from "./cloud-faults.ts";
export { createCloudFaults, type CloudFaultsOptions } from "./create-cloud-faults.ts";
