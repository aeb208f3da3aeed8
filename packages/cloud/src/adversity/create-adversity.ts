import type { Clock } from "@kip/base";
import type { AdversityRuleStore } from "./adverse-cloud.ts";
import {
  withCapacity,
  withFault,
  withoutCapacity,
  withSlowLaunch,
  withThrottling,
} from "./adversity-rules.ts";
import type { CloudAdversity } from "./cloud-adversity.ts";

/** What {@link createAdversity} works with. */
export interface AdversityOptions extends Pick<CloudAdversity, "kill" | "interrupt"> {
  readonly rules: AdversityRuleStore;
  readonly clock: Clock;
}

/** The adversity of a cloud whose handles are wrapped by `adverseCloud` with the same rules; what befalls instances is the cloud's own part. */
export function createAdversity(options: AdversityOptions): CloudAdversity {
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
