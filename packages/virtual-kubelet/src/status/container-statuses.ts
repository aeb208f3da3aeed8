import { defined } from "@kip/base";
import type {
  Container,
  ContainerState,
  ContainerStatus,
  EphemeralContainer,
  Pod,
  PodStatus,
} from "@kip/k8s-types";
import { hasRun } from "../pods/pod-facts.ts";

type ContainerLists = Pick<
  PodStatus,
  "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses"
>;

/** A container's status with all mandatory fields. */
export function containerStatus(
  container: Container | EphemeralContainer,
  state: ContainerState,
  known?: Partial<ContainerStatus>,
): ContainerStatus {
  return {
    restartCount: 0,
    image: container.image ?? "",
    imageID: "",
    lastState: {},
    ready: false,
    started: state.running !== undefined,
    ...known,
    name: container.name,
    state,
  };
}

/**
 * Statuses of a pod without started containers: `PodInitializing` if there are init containers, otherwise `ContainerCreating`.
 * If `problem` names a container, that container gets its reason and message.
 */
export function waitingStatuses(
  pod: Pod,
  problem?: { readonly container: string; readonly reason: string; readonly message: string },
): ContainerLists {
  const { initContainers = [], containers } = pod.spec;
  const reason = initContainers.length > 0 ? "PodInitializing" : "ContainerCreating";
  const waiting = (container: Container): ContainerStatus =>
    containerStatus(container, {
      waiting:
        problem?.container === container.name
          ? { reason: problem.reason, message: problem.message }
          : { reason },
    });
  const initContainerStatuses = initContainers.map(waiting);
  return defined({
    initContainerStatuses: initContainerStatuses.length > 0 ? initContainerStatuses : undefined,
    // In the kubelet's order: regular containers by name, init containers in their starting order.
    containerStatuses: containers.map(waiting).sort((a, b) => (a.name < b.name ? -1 : 1)),
  });
}

/**
 * Statuses of a pod that is gone. Containers that still counted as running have ended with exit code 137, and with the
 * kubelet's message for a container that it can no longer find. The others are as in {@link endedStatuses}.
 */
export function goneStatuses(pod: Pod, status: PodStatus, finishedAt: string): ContainerLists {
  const gone = (each: ContainerStatus): ContainerStatus => {
    const { running } = each.state ?? {};
    if (!running) return each;
    const terminated = defined({ ...notLocated, finishedAt, startedAt: running.startedAt });
    return { ...each, ready: false, started: false, state: { terminated } };
  };
  const { initContainerStatuses, containerStatuses, ephemeralContainerStatuses } = status;
  const lists = defined({
    initContainerStatuses: initContainerStatuses?.map(gone),
    containerStatuses: containerStatuses?.map(gone),
    ephemeralContainerStatuses: ephemeralContainerStatuses?.map(gone),
  });
  return endedStatuses(pod, status, lists);
}

/**
 * The statuses of a pod that has ended. As in a kubelet, containers that were to run and never did have ended, too. Those after
 * an init container that has not completed keep waiting. Otherwise, clients would take the pod for one that starts.
 *
 * @param known the last published status. It may show that the init containers had done their work
 * @param lists the last states of the containers
 */
export function endedStatuses(
  pod: Pod,
  known: PodStatus,
  lists: ContainerLists = known,
): ContainerLists {
  const {
    initContainerStatuses: init,
    containerStatuses: main,
    ephemeralContainerStatuses,
  } = lists;
  const everRan = (each: ContainerStatus): boolean =>
    (each.state?.terminated ?? each.lastState?.terminated) !== undefined;
  const isInitialized =
    wasInitialized(known, pod) ||
    !init?.length ||
    main?.some(everRan) === true ||
    (!isSidecar(pod.spec.initContainers?.at(-1)) && hasCompleted(init.at(-1)));
  const lastBegun = init?.findLastIndex(everRan) ?? -1;
  const ended = (each: ContainerStatus): ContainerStatus => {
    if (each.state?.terminated) return each;
    // Only sidecars are restarted then. As in a kubelet, one that was waiting for that shows its own end.
    const last = pod.spec.restartPolicy === "Never" ? each.lastState?.terminated : undefined;
    const over = { ...each, ready: false, started: false };
    if (last) return { ...over, state: { terminated: last }, lastState: {} };
    return { ...over, state: { terminated: notLocated } };
  };
  return defined({
    initContainerStatuses: init?.map((each, index) =>
      index <= Math.max(lastBegun, 0) ? ended(each) : each,
    ),
    containerStatuses: isInitialized ? main?.map(ended) : main,
    ephemeralContainerStatuses,
  });
}

/**
 * Whether the init containers had done their work, by the last published status: a container after them had run, or the last
 * one was a sidecar that had started. How a sidecar ended does not tell, because it ends with the pod.
 */
function wasInitialized(
  { initContainerStatuses = [], containerStatuses = [] }: PodStatus,
  { spec }: Pod,
): boolean {
  if (hasRun({ containerStatuses })) return true;
  const last = spec.initContainers?.at(-1);
  if (!isSidecar(last)) return false;
  return initContainerStatuses.some(
    ({ name, started, state }) => name === last?.name && started === true && state?.running,
  );
}

/** Whether an init container keeps running beside the regular ones and counts with them. */
export function isSidecar(container: Container | undefined): boolean {
  return container?.restartPolicy === "Always";
}

function hasCompleted({ state, lastState }: Partial<ContainerStatus> = {}): boolean {
  return [state, lastState].some((each) => each?.terminated?.exitCode === 0);
}

/** The kubelet's state of a container that it does not find when the pod has ended. */
const notLocated = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
};
