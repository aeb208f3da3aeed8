import type { ContainerStatus, PodCondition, PodStatus } from "@kip/k8s-types";

const lists = [
  "initContainerStatuses",
  "containerStatuses",
  "ephemeralContainerStatuses",
] as const satisfies readonly (keyof PodStatus)[];

/**
 * The rules of a kubelet that a change of a pod's status breaks: what may not change, decrease or vanish.
 *
 * @param options.runsAgain whether the pod's containers may run again after their end
 */
export function brokenRules(
  before: PodStatus,
  next: PodStatus,
  options: { readonly runsAgain: boolean },
): string[] {
  const { startTime = next.startTime, observedGeneration = 0 } = before;
  return [
    broken("its start time changed", next.startTime !== startTime),
    broken("it is pending again", before.phase === "Running" && next.phase === "Pending"),
    broken("it lost its host", before.hostIP !== undefined && next.hostIP === undefined),
    broken("its generation decreased", (next.observedGeneration ?? 0) < observedGeneration),
    ...lists.map((list) => brokenByContainers(before[list], next[list], options)),
    brokenByConditions(before.conditions, next.conditions),
  ].flat();
}

function broken(what: string, isBroken: boolean): readonly string[] {
  return isBroken ? [what] : [];
}

function brokenByContainers(
  before: readonly ContainerStatus[] = [],
  next: readonly ContainerStatus[] = [],
  { runsAgain }: { readonly runsAgain: boolean },
): readonly string[] {
  return before.flatMap(({ name, state, restartCount }) => {
    const status = next.find((each) => each.name === name);
    if (!status) return [`container ${name} lost its status`];
    const hasLeftItsEnd = state?.terminated && !status.state?.terminated && !runsAgain;
    return [
      broken(`container ${name} was restarted less often`, status.restartCount < restartCount),
      broken(`container ${name} left its end`, hasLeftItsEnd === true),
    ].flat();
  });
}

function brokenByConditions(
  before: readonly PodCondition[] = [],
  next: readonly PodCondition[] = [],
): readonly string[] {
  return before.flatMap(({ type, status, lastTransitionTime }) => {
    const condition = next.find((each) => each.type === type);
    if (!condition) return broken(`condition ${type} vanished`, !type.startsWith("PodResize"));
    const isLate = condition.lastTransitionTime !== lastTransitionTime;
    return broken(`condition ${type} is newer`, condition.status === status && isLate);
  });
}
