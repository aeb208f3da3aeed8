import type { DesiredPod, PodReport } from "@kip/agent-api";
import { hasRun, isRunning, startsAgain, type ContainerRecord } from "./container-record.ts";

/**
 * The pod's phase, by the kubelet's rules.
 *
 * @param isEnding whether the pod is to end, whatever its restart policy
 * @see https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
 */
export function podPhase(
  restartPolicy: DesiredPod["restartPolicy"],
  containers: readonly ContainerRecord[],
  isEnding: boolean,
): PodReport["phase"] {
  const main = containers.filter((record) => record.kind === "main");
  const init = containers.filter((record) => record.kind === "init");
  const sidecars = containers.filter((record) => record.kind === "sidecar");
  const beside = containers.filter(({ kind }) => kind === "sidecar" || kind === "ephemeral");
  const stopped = main.filter((record) => hasStopped(record));
  const isAnyRunning = main.some(isRunning);
  const isAnyOpen = containers.some(
    (record) => isRunning(record) || record.activity?.kind === "starting",
  );

  if (isEnding && !isAnyOpen) {
    const isAllGood =
      stopped.length === main.length && main.every((record) => exitCode(record) === 0);
    return isAllGood ? "Succeeded" : "Failed";
  }
  // A pod has not failed before all containers have ended, because its machine ends with it.
  if (init.some((record) => hasFailed(record, restartPolicy)))
    return isAnyOpen ? "Pending" : "Failed";
  const hasMainRun = main.some(hasRun);
  if (!hasMainRun && init.some((record) => exitCode(record) !== 0)) return "Pending";
  if (!hasMainRun && sidecars.some((record) => !record.saved.started)) return "Pending";
  if (main.some((record) => !isRunning(record) && !hasStopped(record))) return "Pending";
  if (isAnyRunning) return "Running";
  return ended(restartPolicy, main, beside);
}

function ended(
  restartPolicy: DesiredPod["restartPolicy"],
  main: readonly ContainerRecord[],
  beside: readonly ContainerRecord[],
): PodReport["phase"] {
  // A pod whose sidecars or debugging containers still run has not ended, nor has one with a container that is being replaced.
  if (beside.some(isRunning) || main.some(isReplaced)) return "Running";
  if (main.some((record) => startsAgain(record, restartPolicy, exitCode(record) ?? 0)))
    return "Running";
  return main.every((record) => exitCode(record) === 0) ? "Succeeded" : "Failed";
}

/** Whether the container has failed and is not restarted. */
function hasFailed(record: ContainerRecord, restartPolicy: DesiredPod["restartPolicy"]): boolean {
  const code = exitCode(record) ?? 0;
  return code !== 0 && !startsAgain(record, restartPolicy, code);
}

/** Whether the container was stopped for another run, or that run is being started. */
function isReplaced({ saved: { run } }: ContainerRecord): boolean {
  return run !== undefined && (run.exit === undefined || run.restarts === true);
}

/** Whether the container has run and is not running now. It may be waiting for its next start. */
function hasStopped(record: ContainerRecord): boolean {
  const { run, lastTerminated } = record.saved;
  return !isRunning(record) && (run?.exit !== undefined || lastTerminated !== undefined);
}

function exitCode(record: ContainerRecord): number | undefined {
  const { run, lastTerminated } = record.saved;
  if (isRunning(record)) return undefined;
  return (run?.exit ?? lastTerminated)?.exitCode;
}
