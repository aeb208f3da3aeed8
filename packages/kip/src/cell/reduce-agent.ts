import { backoffDelay } from "@kip/base";
import type { CellChange } from "../state/cell-change.ts";
import { hasEnded, type AgentPart, type CellState, type PodRef } from "../state/cell-state.ts";
import { reportedEnd } from "../status/pod-end.ts";
import { restrictReportToPod } from "../status/restrict-report.ts";
import { shortestUsefulConnectionMs } from "./observe-cell.ts";
import { shareOf } from "./share-of.ts";

/** Pauses between cells that are lost in a row, and between connections that soon end. */
const repeatBackoff = { initialMs: 500, maxMs: 300_000, jitter: 0 };

/**
 * The pause of a pod after so many losses in a row, 1 or more; milliseconds. It is up to a fifth shorter, by the pod's UID:
 * pods that lose their cells at the same time do not ask for new ones at the same time.
 */
export function repeatPauseMs({ uid }: PodRef, count: number): number {
  return backoffDelay(count - 1, repeatBackoff) * (1 - shareOf(uid) / 5);
}

/** Notes which generation of the pod the agent has, or may have: the agent ignores one that is not newer. */
export function withGeneration(agent: AgentPart, held: number | undefined): AgentPart {
  return held === undefined
    ? agent
    : { ...agent, generation: Math.max(agent.generation ?? 0, held) };
}

/** A connection to the agent was made. */
export function connected(
  state: CellState,
  { client, generation, report, isPodLost, startMs }: CellChange<"connected">,
  nowMs: number,
): CellState {
  const { agent, cell } = state;
  // It is not sent again after each new connection: those of all cells may break at once.
  const hasNewest = generation !== undefined && generation === agent.sentGeneration;
  const next = {
    ...state,
    ...(hasNewest && { wait: {} }),
    cell: startMs ? { ...cell, startMs: { ...cell.startMs, ...startMs } } : cell,
    agent: {
      ...withGeneration(agent, generation),
      client,
      connectedAt: nowMs,
      // In a series of short connections the time out of reach counts from the first loss.
      unreachableSince: agent.shortConnections === 0 ? undefined : agent.unreachableSince,
      isOutOfReach: agent.isOutOfReach && agent.shortConnections > 0,
      isPodLost: isPodLost ?? agent.isPodLost,
      isDispatched: hasNewest,
    },
  };
  return report?.podUid === state.podRef.uid ? reported(next, { kind: "reported", report }) : next;
}

/** The connection to the agent ended. */
export function agentLost(
  state: CellState,
  _change: CellChange<"agentLost">,
  nowMs: number,
): CellState {
  const { agent } = state;
  const isShort = nowMs - (agent.connectedAt ?? 0) < shortestUsefulConnectionMs;
  const shortConnections = isShort ? agent.shortConnections + 1 : 0;
  return {
    ...state,
    agent: {
      ...agent,
      client: undefined,
      // An agent that answers only for moments counts as out of reach.
      unreachableSince: isShort ? (agent.unreachableSince ?? nowMs) : nowMs,
      shortConnections,
      dialAt: isShort ? nowMs + repeatPauseMs(state.podRef, shortConnections) : undefined,
      isDispatched: false,
      drain: undefined,
    },
  };
}

/** The agent sent a report. */
export function reported(state: CellState, change: CellChange<"reported">): CellState {
  const { pod, cell, agent, end } = state;
  const { events: _passedOn, ...stateOfPod } = change.report;
  const report = restrictReportToPod(stateOfPod, pod.object);
  const seen = { ...state, agent: { ...agent, report } };
  // A pod that was asked to stop has not ended by itself.
  const isOwnEnd = agent.drain === undefined && cell.status.phase !== "Draining";
  if (!hasEnded(report) || !isOwnEnd) return seen;
  const podEnd = pod.object && !end.isRecorded ? reportedEnd(report, seen, pod.object) : end.podEnd;
  return { ...seen, end: { ...end, isPodFinished: true, podEnd } };
}
