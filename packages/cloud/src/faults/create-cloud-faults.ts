import type { Clock } from "@kip/base";
import type { FaultRuleStore } from "./faulty-cloud.ts";
import {
  withCapacity,
  withFault,
  withoutCapacity,
  withSlowLaunch,
  withThrottling,
} from "./fault-rules.ts";
import type { CloudFaults } from "./cloud-faults.ts";

/** Options of {@link createCloudFaults}. The cloud itself provides the faults of instances. */
export interface CloudFaultsOptions extends Pick<CloudFaults, "kill" | "interrupt"> {
  readonly rules: FaultRuleStore;
  readonly clock: Clock;
}

/** The faults of a cloud whose handles are wrapped by `faultyCloud` with the same rules. */
export function createCloudFaults(options: CloudFaultsOptions): CloudFaults {
  const { rules, clock } = options;
  return {
    noCapacity: (scope) => rules.update((all) => withoutCapacity(all, scope)),
    restoreCapacity: (scope) => rules.update((all) => withCapacity(all, scope)),
    slowLaunch: (slow) => rules.update((all) => withSlowLaunch(all, slow)),
    throttle: (throttling) => rules.update((all) => withThrottling(all, throttling, clock.now())),
    fail: (fault) => rules.update((all) => withFault(all, fault)),
    kill: (instanceId) => options.kill(instanceId),
    interrupt: (instanceId, noticeMs) => options.interrupt(instanceId, noticeMs),
    clear: () => rules.update(() => []),
  };
}
