import type { Inspection } from "@kip/reconcile";
import type { CellState } from "../state/cell-state.ts";
import type { CellPhase } from "../state/cell.ts";

/** Path below the node's logs at which {@link NodeDump} is, as JSON. */
export const dumpPath = "kip/dump.json";

/** A step of a worker's plan. Times are milliseconds. */
export interface DumpedStep {
  readonly kind: string;
  readonly lane: string;
  /** As in `InspectedStep`. */
  readonly status: string;
  readonly failures: number;
  /** Until it runs again, of one that is paused. */
  readonly inMs?: number | undefined;
}

/** What kip does for one cell now. */
export interface DumpedWorker {
  /** Undefined: a standby cell. */
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** `run`, `remove`, or `finished` if the pod has ended by itself. */
  readonly wanted: string;
  readonly cell?: string | undefined;
  readonly phase?: CellPhase | undefined;
  readonly instance?: string | undefined;
  /** What the cloud said of it last. */
  readonly machine?: string | undefined;
  readonly isAgentConnected: boolean;
  /** Cells that the pod had before. */
  readonly attempt: number;
  /** Why it waits: a sentence with a remedy. */
  readonly waitsFor?: string | undefined;
  /** What runs, and what the plan has besides. */
  readonly steps: readonly DumpedStep[];
  /** Milliseconds until it plans again although nothing has changed. */
  readonly wakeInMs?: number | undefined;
}

/** Launches that wait for their turn, as the cloud asked for fewer. */
export interface DumpedLaunches {
  /** `all`, or an instance type and a launch type: `t3.small/spot`. */
  readonly of: string;
  readonly waiting: number;
  /** Milliseconds between two of them. */
  readonly delayMs: number;
  /** Milliseconds until the next one; 0: now. */
  readonly inMs: number;
}

/** The plans, queues and timers of a kip, as of one moment. It has no secrets: no content of pods. */
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

/** A worker, by its state and what its reconciler does. */
export function dumpWorker(state: CellState, { steps, wakeInMs }: Inspection): DumpedWorker {
  const { podRef, pod, cell, machine, agent, history, end, wait } = state;
  const { namespace, name, uid } = podRef;
  return {
    // That of a standby cell has no namespace.
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
