import { defined } from "@kip/base";
import type {
  Container,
  ContainerState,
  ContainerStatus,
  EphemeralContainer,
  Pod,
  PodStatus,
} from "@kip/k8s-types";

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
 * Statuses of a pod that is gone. Containers that still counted as running or waiting have ended with exit code 137, and with the
 * kubelet's message for a container that it can no longer find.
 */
export function goneStatuses(status: PodStatus, finishedAt: string): ContainerLists {
  const gone = (each: ContainerStatus): ContainerStatus => {
    if (each.state?.terminated) return each;
    return {
      ...each,
      ready: false,
      started: false,
      state: {
        terminated: defined({
          exitCode: 137,
          reason: "ContainerStatusUnknown",
          message: "The container could not be located when the pod was terminated",
          finishedAt,
          startedAt: each.state?.running?.startedAt,
        }),
      },
    };
  };
  const { initContainerStatuses, containerStatuses, ephemeralContainerStatuses } = status;
  return defined({
    initContainerStatuses: initContainerStatuses?.map(gone),
    containerStatuses: containerStatuses?.map(gone),
    ephemeralContainerStatuses: ephemeralContainerStatuses?.map(gone),
  });
}
