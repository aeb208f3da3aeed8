import type { DesiredPod } from "@kip/agent-api";
import type { Clock, Logger } from "@kip/base";
import type { StepContext, StepOf } from "@kip/reconcile";
import { podAddress, type CheckTarget } from "../checks/handlers.ts";
import type { ProbeCounts } from "../checks/probe-counts.ts";
import { discardRun } from "../container/start-container.ts";
import type { AgentDependencies } from "../dependencies/agent-dependencies.ts";
import type { DiskFigures } from "../figures/disk-figures.ts";
import type { CellNetwork } from "../network/cell-network.ts";
import type { ContainerRecord } from "../state/container-record.ts";
import type { PodStepArgs } from "../state/plan.ts";
import type { PodChange } from "../state/pod-change.ts";
import type { PodEvents } from "../state/pod-events.ts";
import type { PodState } from "../state/pod-state.ts";
import type { AgentDirectories } from "../storage/agent-directories.ts";

/** Tools for the steps. */
export interface StepTools {
  readonly dependencies: AgentDependencies;
  readonly directories: AgentDirectories;
  readonly network: CellNetwork;
  readonly events: PodEvents;
  readonly probeCounts: ProbeCounts;
  readonly diskFigures: DiskFigures;
  /**
   * Saves the state before doing something that depends on it after a restart of the agent. All calls in one turn of the event
   * loop share one write. @throws if the disk fails
   */
  readonly save: () => Promise<void>;
  /** The same, if possible. Never throws. */
  readonly trySave: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

type Kind = keyof PodStepArgs;

/** What a step can read while it runs, and how it reports progress. */
export type PodStepContext<K extends Kind = Kind> = StepContext<
  PodState,
  PodChange,
  StepOf<PodStepArgs, K>
>;

/** Runs one kind of step: from its arguments, the newest state and the tools to the resulting change. */
export type Executor<K extends Kind> = (
  step: StepOf<PodStepArgs, K>,
  context: PodStepContext<K>,
  tools: StepTools,
) => Promise<PodChange | undefined>;

/** A value that the plan guarantees to exist when the step runs. @throws Error if the plan has a bug */
export function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("A step ran before its time");
  return value;
}

/** The record of a container that is in the plan. */
export function recordOf(state: PodState, name: string): ContainerRecord {
  return present(state.containers.get(name));
}

/** Releases a run's resources, except its log. A failure must not stop the pod. */
export async function discard(runId: string, tools: StepTools): Promise<void> {
  try {
    await discardRun({ id: runId }, tools);
  } catch (error) {
    tools.logger.error("Could not remove a container", { runId, err: error });
  }
}

/** A run as the target of probes and hooks. */
export function targetOf(containerId: string, pod: DesiredPod, tools: StepTools): CheckTarget {
  return { runtime: tools.dependencies.runtime, containerId, address: podAddress(pod) };
}
