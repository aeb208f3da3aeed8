import { AgentError } from "@kip/agent-api";
import { hasBegun, hasRun, isRunning, type ContainerRecord } from "./container-record.ts";
import type { PodState } from "./pod-state.ts";
import { runId } from "./run-id.ts";

/** IDs of the running containers, by the container's name. */
export function runningIds({ containers }: PodState): ReadonlyMap<string, string> {
  return new Map(
    [...containers.values()].flatMap((record) => {
      const { run } = record.saved;
      return run && isRunning(record) ? [[record.desired.name, run.id] as const] : [];
    }),
  );
}

/**
 * ID of a running container.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_UNKNOWN` or `AGENT_CONTAINER_NOT_RUNNING`
 */
export function runningId(state: PodState, name: string): string {
  const record = find(state, name);
  if (isRunning(record) && record.saved.run) return record.saved.run.id;
  throw new AgentError(
    "AGENT_CONTAINER_NOT_RUNNING",
    `Cannot reach container "${name}": it does not run`,
  );
}

/**
 * ID of the container whose processes another one should see. As in the kubelet, one that has never run does not exist.
 *
 * @throws {AgentError} code `AGENT_CONTAINER_CONFIG` or `AGENT_CONTAINER_NOT_RUNNING`
 */
export function targetId(state: PodState, name: string): string {
  const record = state.containers.get(name);
  if (record && hasRun(record)) return runningId(state, name);
  throw new AgentError("AGENT_CONTAINER_CONFIG", `unable to find target container ${name}`);
}

/**
 * The log of a container: that of its current run, or of the last one that has started.
 *
 * @param previous the log of the run before, for `kubectl logs --previous`
 * @throws {AgentError} code `AGENT_CONTAINER_UNKNOWN`
 */
export function logOf(
  state: PodState,
  name: string,
  previous: boolean,
): { readonly id: string; readonly path: string } {
  const { saved, waiting } = find(state, name);
  const { run, previousLogDirectory } = saved;
  const isOver = run?.exit !== undefined && waiting !== undefined;
  const isCurrentRun = run !== undefined && hasBegun(run) && (!previous || isOver);
  if (isCurrentRun) return { id: run.id, path: run.logDirectory };
  if (run === undefined || previousLogDirectory === undefined) {
    const which = previous ? "previous terminated container" : "container";
    throw new AgentError(
      "AGENT_CONTAINER_UNKNOWN",
      `Cannot read the log: ${which} "${name}" in pod "${state.desired?.name}" not found`,
    );
  }
  return { id: runId(state.desired?.uid ?? "", name, run.attempt - 1), path: previousLogDirectory };
}

function find({ containers }: PodState, name: string): ContainerRecord {
  const record = containers.get(name);
  if (record) return record;
  throw new AgentError("AGENT_CONTAINER_UNKNOWN", `Cannot find container "${name}" in the pod`);
}
