import type { ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";

/**
 * Whether a status only adds detail to a pod that starts, on which nothing else acts: start time, and why containers wait. Phase, addresses, a
 * container that runs or has ended, and a condition that becomes true or false are more than that; so is all of a pod that ends.
 */
export function isDetail(wanted: PodStatus, { metadata, spec, status = {} }: Pod): boolean {
  const isStarting =
    (wanted.phase ?? "Pending") === "Pending" &&
    (status.phase ?? "Pending") === "Pending" &&
    metadata.deletionTimestamp === undefined;
  if (!isStarting || wanted.podIP !== status.podIP) return false;
  if (wanted.reason !== status.reason) return false;
  const lists = [
    wanted.containerStatuses,
    wanted.initContainerStatuses,
    wanted.ephemeralContainerStatuses,
  ];
  if (!lists.flatMap((list) => list ?? []).every(onlyWaits)) return false;
  const hasInit = (spec.initContainers ?? []).length > 0;
  return (wanted.conditions ?? []).every(({ type, status: now }) => {
    const before = status.conditions?.find((each) => each.type === type)?.status ?? "False";
    return now === before || (type === "Initialized" && !hasInit);
  });
}

function onlyWaits({ state, lastState, restartCount }: ContainerStatus): boolean {
  return (
    state?.running === undefined &&
    state?.terminated === undefined &&
    lastState?.terminated === undefined &&
    restartCount === 0
  );
}
