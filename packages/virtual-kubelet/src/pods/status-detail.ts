import type { ContainerStatus, Pod, PodStatus } from "@kip/k8s-types";

/** How long details, such as why containers wait, may wait for the next status, milliseconds. */
const detailMs = 1000;
/** The same for a first address. It is short, because network policies of other pods need it before the containers run. */
const addressMs = 200;

/**
 * How long a status of a starting pod may wait for the next status, milliseconds. 0 if it must not wait. Details are the start
 * time, and why containers wait. A first address has less time. A phase, a container that runs or has ended, and a condition
 * that becomes true or false without an address must not wait. Neither must anything in a pod that is ending.
 */
export function mayWaitMs(wanted: PodStatus, { metadata, spec, status = {} }: Pod): number {
  const isStarting =
    (wanted.phase ?? "Pending") === "Pending" &&
    (status.phase ?? "Pending") === "Pending" &&
    metadata.deletionTimestamp === undefined;
  if (!isStarting || wanted.reason !== status.reason) return 0;
  const lists = [
    wanted.containerStatuses,
    wanted.initContainerStatuses,
    wanted.ephemeralContainerStatuses,
  ];
  if (!lists.flatMap((list) => list ?? []).every(onlyWaits)) return 0;
  if (wanted.podIP !== status.podIP) return status.podIP === undefined ? addressMs : 0;
  const hasInit = (spec.initContainers ?? []).length > 0;
  const isDetail = (wanted.conditions ?? []).every(({ type, status: now }) => {
    const before = status.conditions?.find((each) => each.type === type)?.status ?? "False";
    return now === before || (type === "Initialized" && !hasInit);
  });
  return isDetail ? detailMs : 0;
}

function onlyWaits({ state, lastState, restartCount }: ContainerStatus): boolean {
  return (
    state?.running === undefined &&
    state?.terminated === undefined &&
    lastState?.terminated === undefined &&
    restartCount === 0
  );
}
