import { defined, ownValue } from "@kip/base";
import {
  maxMessageLength,
  runsAgain,
  type ContainerReport,
  type ReportedPod,
} from "@kip/agent-api";
import type { Container, ContainerStatus, Pod } from "@kip/k8s-types";
import { waitingStatuses } from "@kip/virtual-kubelet/status";
import { hasEnded, type CellState, type ContainerHistory } from "../state/cell-state.ts";
import { isRecursiveReadOnly } from "../dispatch/desired-container.ts";
import { containerResources, withPlausibleResources } from "./container-resources.ts";
import { restartPolicy } from "../state/restart-policy.ts";
import { containerStatus, type ContainerLists } from "./container-status.ts";
import { withShortMessage } from "./short-message.ts";
import { afterLoss, byName, endedStatus, finalStatuses } from "./lost-containers.ts";

type Facts = Pick<CellState, "agent" | "containers" | "status">;

/**
 * The newest known statuses of a pod's containers: those that kip last published, otherwise those from the agent, otherwise
 * those in the API.
 */
export function latestLists(state: Facts, pod: Pod): ContainerLists {
  if (state.status) return state.status;
  const { report } = state.agent;
  return report ? reportedLists(report, state, pod) : (pod.status ?? {});
}

/** The statuses of a pod that has no cell now. Its containers are waiting. Restart counts and last states are kept. */
export function waitingLists(state: Facts, pod: Pod): ContainerLists {
  return afterLoss(pod, latestLists(state, pod), state.containers);
}

/** The statuses that a cell reports, as a continuation of those on earlier cells. */
export function reportedLists(
  given: ReportedPod,
  { agent, containers, status }: Facts,
  pod: Pod,
): ContainerLists {
  const known = status ?? pod.status ?? {};
  const waiting = waitingStatuses(pod);
  const isFinal = finalStatuses(pod);
  const specs = byName([...(pod.spec.initContainers ?? []), ...pod.spec.containers]);
  const published = byName([
    ...(known.initContainerStatuses ?? []),
    ...(known.containerStatuses ?? []),
  ]);
  const report = withPlausibleResources(given, { machine: agent.machine, specs, published });
  const hasStopSignals = namesStopSignal(pod);
  const { initContainers = [], containers: main, ephemeralContainers = [] } = pod.spec;
  const count = initContainers.length + main.length + ephemeralContainers.length;
  const messageLength = maxMessageLength(count);
  const build = (
    reports: readonly ContainerReport[],
    fresh: readonly ContainerStatus[] = [],
    before: readonly ContainerStatus[] = [],
  ): ContainerStatus[] => {
    const [reportsByName, knownByName] = [byName(reports), byName(before)];
    return fresh.map((each) => {
      const facts = { waiting: each, known: knownByName.get(each.name), containers, isFinal };
      const report = reportsByName.get(each.name);
      const spec = specs.get(each.name);
      const ofRun = report && {
        ...containerResources(report, spec?.resources),
        volumeMounts: mountStatuses(spec),
        stopSignal: hasStopSignals ? report.stopSignal : undefined,
      };
      const now = continued(report, facts);
      const status = hasEnded(given) ? now : showable(now, pod, each);
      return defined({ ...status, ...shortStates(status, messageLength), ...ofRun });
    });
  };
  const ephemeral = ephemeralStatuses(report, containers, known.ephemeralContainerStatuses).map(
    (status) => ({ ...status, ...shortStates(status, messageLength) }),
  );
  return defined({
    initContainerStatuses:
      waiting.initContainerStatuses &&
      build(report.initContainers, waiting.initContainerStatuses, known.initContainerStatuses),
    containerStatuses: build(report.containers, waiting.containerStatuses, known.containerStatuses),
    ephemeralContainerStatuses: ephemeral.length > 0 ? ephemeral : undefined,
  });
}

function shortStates(
  { state, lastState }: ContainerStatus,
  messageLength: number,
): Pick<ContainerStatus, "state" | "lastState"> {
  return defined({
    state: state && withShortMessage(state, messageLength),
    lastState: lastState && withShortMessage(lastState, messageLength),
  });
}

/** Signals are only reported if the pod names one, because the API then has the field. */
function namesStopSignal({ spec }: Pod): boolean {
  return [...(spec.initContainers ?? []), ...spec.containers].some(
    ({ lifecycle }) => lifecycle?.stopSignal !== undefined,
  );
}

/**
 * An init container with its own restart policy may run again although its pod does not. The API does not allow it to leave the
 * terminated state, so it is not shown in that state.
 */
function showable(status: ContainerStatus, pod: Pod, fresh: ContainerStatus): ContainerStatus {
  const { terminated } = status.state ?? {};
  if (!terminated || terminated.exitCode === 0 || restartPolicy(pod) !== "Never") return status;
  const own = pod.spec.initContainers?.find(({ name }) => name === status.name);
  if (!own || !runsAgain(own, "Never", terminated.exitCode)) return status;
  return { ...status, state: fresh.state ?? {}, lastState: { terminated } };
}

/** How a container's volumes are mounted. Undefined if it has none. */
function mountStatuses(container: Container | undefined): ContainerStatus["volumeMounts"] {
  const { volumeMounts = [] } = container ?? {};
  if (volumeMounts.length === 0) return undefined;
  return volumeMounts.map((mount) =>
    defined({
      name: mount.name,
      mountPath: mount.mountPath,
      readOnly: mount.readOnly,
      recursiveReadOnly:
        mount.readOnly === true ? (isRecursiveReadOnly(mount) ? "Enabled" : "Disabled") : undefined,
    }),
  );
}

interface ContainerFacts {
  /** The status of the container before its first start. */
  readonly waiting: ContainerStatus;
  /** Its last published status. */
  readonly known: ContainerStatus | undefined;
  readonly containers: ContainerHistory;
  readonly isFinal: (status: ContainerStatus) => boolean;
}

/** One container's status on this cell, as a continuation of earlier cells. */
function continued(
  report: ContainerReport | undefined,
  { waiting, known, containers, isFinal }: ContainerFacts,
): ContainerStatus {
  const ended = ownValue(containers.ended, waiting.name);
  if (ended && !report) return known?.state?.terminated ? known : endedStatus(waiting, ended);
  const earlier = ownValue(containers.restartCounts, waiting.name) ?? 0;
  const now = report ? containerStatus(report, earlier) : { ...waiting, restartCount: earlier };
  if (!known) return now;
  // The API does not allow a container to leave its final state, although an init container runs again on another cell.
  if (!now.state?.terminated && isFinal(known)) return known;
  return {
    ...now,
    lastState: lastState(report, known) ?? now.lastState ?? {},
    restartCount: Math.max(now.restartCount, known.restartCount),
  };
}

/** How a container's last run ended, if that was on an earlier cell. */
function lastState(
  report: ContainerReport | undefined,
  known: ContainerStatus,
): ContainerStatus["lastState"] {
  if (!report) return known.lastState;
  return report.restartCount === 0 && !report.lastTerminated ? known.lastState : undefined;
}

function ephemeralStatuses(
  report: ReportedPod,
  { ended }: ContainerHistory,
  known: readonly ContainerStatus[] = [],
): ContainerStatus[] {
  // As in a kubelet, they are neither ready nor started.
  const reported = report.ephemeralContainers.map((each) => {
    const { started: _none, ...status } = containerStatus(each, 0);
    return { ...status, ready: false };
  });
  const names = byName(reported);
  const earlier = known.filter(
    ({ name }) => ownValue(ended, name) !== undefined && !names.has(name),
  );
  // Sorted by name, as in the kubelet.
  return [...earlier, ...reported].sort((a, b) => (a.name < b.name ? -1 : 1));
}
