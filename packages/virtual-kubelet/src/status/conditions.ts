import type { PodCondition } from "@kip/k8s-types";

/** A condition without its times. */
export interface ConditionVerdict {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  /** Generation of the pod that it is about. @default the one that the provider has accepted */
  readonly observedGeneration?: number;
}

/**
 * Conditions with their transition times: a condition whose status did not change keeps the time it
 * had. Conditions of other types are kept.
 *
 * @param known the conditions the API has
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
