import { decode, defined } from "@kip/base";
import type { LaunchRequest } from "../cloud-driver.ts";
import { CloudError, cloudErrorCodes, type CapacityScope } from "../errors.ts";
import { type CloudFault, type SlowLaunch, type Throttling } from "./cloud-faults.ts";
import { cloudOperations, type CloudOperation } from "../operations.ts";

const scopeDocument = decode.object({
  instanceType: decode.optional(decode.string),
  zone: decode.optional(decode.string),
  launchType: decode.optional(decode.string),
});

const ruleDocument = decode.object({
  kind: decode.oneOf("no-capacity", "slow-launch", "throttle", "fail"),
  scope: decode.optional(scopeDocument),
  instanceType: decode.optional(decode.string),
  ms: decode.optional(decode.number),
  operation: decode.optional(decode.oneOf(...cloudOperations)),
  code: decode.optional(decode.oneOf(...cloudErrorCodes)),
  moment: decode.optional(decode.oneOf("before", "after")),
  /** How many more calls it applies to. */
  calls: decode.optional(decode.integer),
  /** When it ends, milliseconds since the epoch. */
  until: decode.optional(decode.number),
});

/** A fault, until it is used up or lifted. It is plain data that can be stored in a file. */
export type FaultRule = decode.Decoded<typeof ruleDocument>;

/** Decodes rules from JSON. */
export const decodeFaultRules: decode.Decoder<readonly FaultRule[]> = decode.list(ruleDocument);

/** A call that is about to be made. */
export interface CallFacts {
  readonly operation: CloudOperation;
  /** Present for the launch of an instance that does not exist yet. */
  readonly launch?: Pick<LaunchRequest, "instanceType" | "launchType"> | undefined;
  readonly zone: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The effect of the rules on a call. */
export interface FaultVerdict {
  /** The rules after the call. The same list if nothing has changed. */
  readonly rules: readonly FaultRule[];
  /** Delay before the call, milliseconds. */
  readonly delayMs: number;
  /** The call fails with this and has no effect. */
  readonly before?: CloudError | undefined;
  /** The call has its effect and fails with this. */
  readonly after?: CloudError | undefined;
}

/** Applies the rules to a call. Only the first rule that makes it fail applies, and the call counts for that rule. */
export function judge(rules: readonly FaultRule[], call: CallFacts): FaultVerdict {
  const slow = rules.find(
    (rule) => rule.kind === "slow-launch" && call.launch && matches(rule, call.launch.instanceType),
  );
  const delayMs = slow?.ms ?? 0;
  const living = rules.filter((rule) => (rule.until ?? Infinity) > call.now);
  const hit = living.find((rule) => refuses(rule, call));
  const left = living
    .map((rule) =>
      rule === hit && rule.calls !== undefined ? { ...rule, calls: rule.calls - 1 } : rule,
    )
    .filter((rule) => (rule.calls ?? 1) > 0);
  const isSame = left.length === rules.length && left.every((rule, index) => rule === rules[index]);
  const after = isSame ? rules : left;
  if (!hit) return { rules: after, delayMs };
  return { rules: after, delayMs, [hit.moment ?? "before"]: errorOf(hit, call) };
}

function matches(rule: FaultRule, instanceType: string): boolean {
  return rule.instanceType === undefined || rule.instanceType === instanceType;
}

function refuses(rule: FaultRule, call: CallFacts): boolean {
  switch (rule.kind) {
    case "throttle":
      return true;
    case "fail":
      return rule.operation === call.operation;
    case "no-capacity": {
      if (!call.launch) return false;
      const launch: CapacityScope = { ...call.launch, zone: call.zone };
      const { instanceType, zone, launchType } = rule.scope ?? {};
      return (
        (instanceType ?? launch.instanceType) === launch.instanceType &&
        (zone ?? launch.zone) === launch.zone &&
        (launchType ?? launch.launchType) === launch.launchType
      );
    }
    default:
      return false;
  }
}

function errorOf(rule: FaultRule, call: CallFacts): CloudError {
  const subject = `Cannot do "${call.operation}"`;
  switch (rule.kind) {
    case "throttle":
      return new CloudError("CLOUD_THROTTLED", `${subject}: calls are throttled on demand`);
    case "no-capacity": {
      const named = defined(rule.scope ?? {});
      const scope = Object.keys(named).length === 0 ? { zone: call.zone } : named;
      const words = Object.entries(scope).map(([what, which]) => `${what} ${which}`);
      return new CloudError(
        "CLOUD_NO_CAPACITY",
        `Cannot start an instance: there is no capacity of ${words.join(", ")}, on demand`,
        { scope },
      );
    }
    default: {
      const effect = rule.moment === "after" ? "its answer is lost" : "it fails";
      return new CloudError(rule.code ?? "CLOUD_UNKNOWN", `${subject}: ${effect}, on demand`);
    }
  }
}

/** Adds a scope without capacity to the rules. */
export function withoutCapacity(
  rules: readonly FaultRule[],
  scope: CapacityScope,
): readonly FaultRule[] {
  return [...withCapacity(rules, scope), { kind: "no-capacity", scope }];
}

/** Removes exactly this scope without capacity from the rules. */
export function withCapacity(
  rules: readonly FaultRule[],
  scope: CapacityScope,
): readonly FaultRule[] {
  const isSame = (other: CapacityScope | undefined): boolean =>
    other?.instanceType === scope.instanceType &&
    other?.zone === scope.zone &&
    other?.launchType === scope.launchType;
  return rules.filter((rule) => rule.kind !== "no-capacity" || !isSame(rule.scope));
}

/** Adds a delay for launches of a type. The rule of one type comes before the rule of every type. */
export function withSlowLaunch(
  rules: readonly FaultRule[],
  slow: SlowLaunch,
): readonly FaultRule[] {
  const others = rules.filter(
    (rule) => rule.kind !== "slow-launch" || rule.instanceType !== slow.instanceType,
  );
  const rule: FaultRule = { kind: "slow-launch", ...slow };
  return slow.instanceType === undefined ? [...others, rule] : [rule, ...others];
}

/** Adds throttling to the rules. */
export function withThrottling(
  rules: readonly FaultRule[],
  throttling: Throttling,
  now: number,
): readonly FaultRule[] {
  const { calls, ms } = throttling;
  const until = ms === undefined ? undefined : now + ms;
  return [...rules, { kind: "throttle", calls, until }];
}

/** Adds a failure of an operation's next calls to the rules. */
export function withFault(rules: readonly FaultRule[], fault: CloudFault): readonly FaultRule[] {
  const { operation, code, calls = 1, moment = "before" } = fault;
  return [...rules, { kind: "fail", operation, code, calls, moment }];
}
