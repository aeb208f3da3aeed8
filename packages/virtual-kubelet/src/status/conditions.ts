import type { PodCondition } from "@kip/k8s-types";

/** A condition without its times. */
export interface ConditionVerdict {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  /** The pod's generation to which it applies. @default the one that the provider has accepted */
  readonly observedGeneration?: number;
}

/**
 * Adds transition times to conditions. A condition whose status has not changed keeps its time. Conditions of other types stay.
 *
 * @param known the conditions in the API
 * @param now as `metav1.Time`
 */
export function mergeConditions(
  known: readonly PodCondition[],
  verdicts: readonly ConditionVerdict[],
  now: string,
): PodCondition[] {
  const own = verdicts.map((verdict): PodCondition => {
    const before = known.find(({ type }) => type === verdict.type);
    const kept = before?.status === verdict.status ? before.lastTransitionTime : undefined;
    return { ...verdict, lastTransitionTime: kept ?? now };
  });
  const others = known.filter(({ type }) => !verdicts.some((verdict) => verdict.type === type));
  return [...own, ...others];
}
