import { runsAgain } from "@kip/agent-api";
import { defined, ownValue } from "@kip/base";
import type { ContainerState, ContainerStatus, Pod } from "@kip/k8s-types";
import { goneStatuses, waitingStatuses } from "@kip/virtual-kubelet/status";
import type { EndedContainer, PodEnd } from "../state/cell.ts";
import { restartPolicy } from "../state/restart-policy.ts";
import type { ContainerLists } from "./container-status.ts";

/** Reason of a pod that has failed because its cell was lost. */
export const cellLost = "CellLost";

/** Facts about containers that a pod carries from one cell to the next. */
export interface CarriedContainers {
  /** Restart counts so far, by container name. */
  readonly restartCounts: Readonly<Record<string, number>>;
  /** Containers that are not restarted, by name. */
  readonly ended: Readonly<Record<string, EndedContainer>>;
}

/**
 * The statuses of a pod whose cell was lost. Its containers are waiting for another cell. The restart count of a container that
 * ran increases by one, and its last state is `ContainerStatusUnknown`, which the kubelet reports for a container that it does
 * not find. A container that has ended for good is unchanged. Idempotent.
 */
export function afterLoss(
  pod: Pod,
  lists: ContainerLists,
  { restartCounts, ended }: CarriedContainers,
): ContainerLists {
  const waiting = waitingStatuses(pod);
  const isFinal = finalStatuses(pod);
  const lost = (
    fresh: readonly ContainerStatus[],
    known: readonly ContainerStatus[] = [],
  ): ContainerStatus[] => {
    const knownByName = byName(known);
    return fresh.map((each) => {
      const before = knownByName.get(each.name);
      const end = ownValue(ended, each.name);
      if (before && isFinal(before)) return before;
      if (end) return endedStatus(each, end);
      const restartCount = Math.max(
        ownValue(restartCounts, each.name) ?? 0,
        before ? nextCount(before) : 0,
      );
      const { allocatedResources, resources } = before ?? {};
      const had = defined({ allocatedResources, resources });
      return { ...each, restartCount, lastState: lastState(before), ...had };
    });
  };
  const { initContainerStatuses, containerStatuses = [] } = waiting;
  // Ephemeral containers are not started again.
  const ephemeral = (lists.ephemeralContainerStatuses ?? []).map((each) =>
    each.state?.terminated
      ? each
      : { ...each, ready: false, started: false, state: { terminated: unknownEnd } },
  );
  return defined({
    initContainerStatuses:
      initContainerStatuses && lost(initContainerStatuses, lists.initContainerStatuses),
    containerStatuses: lost(containerStatuses, lists.containerStatuses),
    ephemeralContainerStatuses: ephemeral.length > 0 ? ephemeral : undefined,
  });
}

/**
 * Facts about containers for a pod's next cell, from its statuses {@link afterLoss}.
 *
 * Init containers do not count as ended, because the next cell's volumes are empty.
 */
export function carriedContainers(
  pod: Pod,
  lists: ContainerLists,
  sent: ReadonlySet<string> = new Set(),
): CarriedContainers {
  const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses } = lists;
  const counts = [...initContainerStatuses, ...containerStatuses].map(
    ({ name, restartCount }) => [name, restartCount] as const,
  );
  const final = containerStatuses.filter(finalStatuses(pod));
  const unknown = [...sent].map(
    (name) => [name, { exitCode: 137, reason: unknownReason }] as const,
  );
  const known = [...final, ...(ephemeralContainerStatuses ?? [])].flatMap(({ name, state }) =>
    state?.terminated ? [[name, endedContainer(state.terminated)] as const] : [],
  );
  return {
    restartCounts: Object.fromEntries(counts),
    ended: Object.fromEntries([...unknown, ...known]),
  };
}

/**
 * The end of a pod that has lost its cell. Undefined if the pod continues on another cell. The loss ends the pod if all of its
 * containers had ended for good, or if it must not be started again (`restartPolicy: Never`).
 *
 * @param finishedAt for containers that ran, as `metav1.Time`
 */
export function endByLoss(
  pod: Pod,
  lists: ContainerLists,
  { message, finishedAt }: { readonly message: string; readonly finishedAt: string },
): PodEnd | undefined {
  const knownByName = byName(lists.containerStatuses ?? []);
  const statuses = (pod.spec.containers ?? []).map(({ name }) => knownByName.get(name));
  const isFinal = finalStatuses(pod);
  const gone = goneStatuses(pod, lists, finishedAt);
  if (statuses.length > 0 && statuses.every((status) => status && isFinal(status))) {
    const isGood = statuses.every((status) => status?.state?.terminated?.exitCode === 0);
    return { phase: isGood ? "Succeeded" : "Failed", ...gone };
  }
  if (restartPolicy(pod) !== "Never") return undefined;
  return { phase: "Failed", reason: cellLost, message, ...gone };
}

/**
 * Returns a function that checks whether a container has ended for good: it is terminated, and the pod's restart policy does
 * not restart it.
 */
export function finalStatuses(pod: Pod): (status: ContainerStatus) => boolean {
  const policy = restartPolicy(pod);
  const containers = byName([...(pod.spec.initContainers ?? []), ...pod.spec.containers]);
  return ({ name, state }) => {
    if (!state?.terminated) return false;
    return !runsAgain(containers.get(name) ?? {}, policy, state.terminated.exitCode);
  };
}

/** A list as a map by name. If names are equal, the last one counts. */
export function byName<T extends { readonly name: string }>(
  list: readonly T[],
): ReadonlyMap<string, T> {
  return new Map(list.map((each) => [each.name, each]));
}

/** The status of a container that ended on an earlier cell and is not restarted. */
export function endedStatus(waiting: ContainerStatus, end: EndedContainer): ContainerStatus {
  return { ...waiting, ready: false, started: false, state: { terminated: end } };
}

function endedContainer({
  exitCode,
  reason,
  startedAt,
  finishedAt,
}: NonNullable<ContainerState["terminated"]>): EndedContainer {
  // The API has null for an unknown time.
  return defined({
    exitCode,
    reason,
    startedAt: startedAt ?? undefined,
    finishedAt: finishedAt ?? undefined,
  });
}

/**
 * Counts the restart here, because the next run begins on another cell. A waiting container has run on this cell if it has an
 * ID. One that has been waiting since an earlier loss has none.
 */
function nextCount({ restartCount, state, containerID }: ContainerStatus): number {
  const hasRunHere = state?.running ?? state?.terminated ?? containerID !== undefined;
  return restartCount + (hasRunHere ? 1 : 0);
}

const unknownReason = "ContainerStatusUnknown";

/** The state that the kubelet reports for a container that it does not find. */
const unknownEnd = {
  exitCode: 137,
  reason: unknownReason,
  message:
    "The container could not be located when the pod was deleted. The container used to be Running",
};

function lastState(before: ContainerStatus | undefined): ContainerState {
  if (before?.state?.running) return { terminated: unknownEnd };
  if (before?.state?.terminated) return { terminated: before.state.terminated };
  return before?.lastState ?? {};
}
