import type { Inspection } from "@kip/reconcile";
import type { CellState } from "../state/cell-state.ts";
import type { CellPhase } from "../state/cell.ts";

/** Path below the node's logs of the {@link NodeDump}, as JSON. */
export const dumpPath = "kip/dump.json";

/** A step of a worker's plan. Times are milliseconds. */
export interface DumpedStep {
  readonly kind: string;
  readonly lane: string;
  /** As in `InspectedStep`. */
  readonly status: string;
  readonly failures: number;
  /** Time until a paused step runs again. */
  readonly inMs?: number | undefined;
}

/** What kip is doing for one cell. */
export interface DumpedWorker {
  /** Undefined for a standby cell. */
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** `run`, `remove`, or `finished` if the pod has ended by itself. */
  readonly wanted: string;
  readonly cell?: string | undefined;
  readonly phase?: CellPhase | undefined;
  readonly instance?: string | undefined;
  /** Last state that the cloud reported. */
  readonly machine?: string | undefined;
  readonly isAgentConnected: boolean;
  /** Number of earlier cells of the pod. */
  readonly attempt: number;
  /** Why it is waiting: a sentence with a remedy. */
  readonly waitsFor?: string | undefined;
  /** Running steps, and other steps of the plan. */
  readonly steps: readonly DumpedStep[];
  /** Milliseconds until it plans again without a change. */
  readonly wakeInMs?: number | undefined;
}

/** Launches that wait for their turn because the cloud asked for fewer. */
export interface DumpedLaunches {
  /** `all`, or an instance type and a launch type: `t3.small/spot`. */
  readonly of: string;
  readonly waiting: number;
  /** Milliseconds between two launches. */
  readonly delayMs: number;
  /** Milliseconds until the next launch. 0: now. */
  readonly inMs: number;
}

/** The plans, queues and timers of a kip at one moment. It contains no secrets and no content of pods. */
export interface NodeDump {
  readonly node: string;
  /** RFC 3339. */
  readonly time: string;
  /** Pods that were admitted and have no worker yet. */
  readonly admitted: readonly string[];
  readonly pods: readonly DumpedWorker[];
  readonly standby: readonly DumpedWorker[];
  readonly launches: readonly DumpedLaunches[];
}

/** A worker's state, and its reconciler's steps. */
export function dumpWorker(state: CellState, { steps, wakeInMs }: Inspection): DumpedWorker {
  const { podRef, pod, cell, machine, agent, history, end, wait } = state;
  const { namespace, name, uid } = podRef;
  return {
    // A standby cell's has no namespace.
    ...(namespace === "" ? {} : { pod: { namespace, name, uid } }),
    wanted: end.isPodFinished && pod.wanted.kind === "run" ? "finished" : pod.wanted.kind,
    cell: cell.object?.metadata.name,
    phase: cell.object && cell.status.phase,
    instance: machine.instance?.id ?? cell.status.instanceID,
    machine: machine.state,
    isAgentConnected: agent.client !== undefined,
    attempt: history.attempt,
    waitsFor: wait.reason?.message,
    steps: steps.map((step) => ({ ...step, kind: String(step.kind), inMs: rounded(step.inMs) })),
    wakeInMs: rounded(wakeInMs),
  };
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}
