import type { FaultRule } from "@kip/cloud/faults";

/** Describes a rule in words. */
export function describeRule(rule: FaultRule): string {
  const left = limits(rule);
  switch (rule.kind) {
    case "no-capacity": {
      const { instanceType, zone, launchType } = rule.scope ?? {};
      const words = [
        instanceType,
        launchType === undefined ? undefined : `${launchType} capacity`,
        zone === undefined ? undefined : `zone ${zone}`,
      ].filter((word) => word !== undefined);
      const what = words.length === 0 ? "any type" : words.join(", ");
      return `no capacity: no new cell of ${what} starts${left}`;
    }
    case "slow-launch":
      return `slow launch: a new cell of ${rule.instanceType ?? "any type"} takes ${(rule.ms ?? 0) / 1000} s more${left}`;
    case "throttle":
      return `throttled: the cloud refuses calls${left}`;
    default: {
      const when = rule.moment === "after" ? "is done and its answer lost" : "fails";
      return `failure: the call ${rule.operation} ${when}, with ${rule.code}${left}`;
    }
  }
}

function limits({ calls, until }: FaultRule): string {
  const parts = [
    calls === undefined ? [] : [`${calls} more ${calls === 1 ? "time" : "times"}`],
    until === undefined ? [] : [`until ${new Date(until).toISOString()}`],
  ].flat();
  return parts.length === 0 ? "" : `, ${parts.join(", or ")}`;
}
