import { backoffDelay } from "@kip/base";
import type { CellChange } from "../state/cell-change.ts";
import { hasEnded, type AgentPart, type CellState, type PodRef } from "../state/cell-state.ts";
import { reportedEnd } from "../status/pod-end.ts";
import { restrictReportToPod } from "../status/restrict-report.ts";
import { shortestUsefulConnectionMs } from "./observe-cell.ts";
import { shareOf } from "./share-of.ts";

/** Pauses between consecutive lost cells, and between short connections. */
const repeatBackoff = { initialMs: 500, maxMs: 300_000, jitter: 0 };

/**
 * A pod's pause after this number of consecutive losses, 1 or more, in milliseconds. It is up to a fifth shorter, depending on
 * the pod's UID, so that pods that lose their cells together do not request new ones at the same time.
 */
export function repeatPauseMs({ uid }: PodRef, count: number): number {
  return backoffDelay(count - 1, repeatBackoff) * (1 - shareOf(uid) / 5);
}

/** Records which generation of the pod the agent has or may have. The agent ignores one that is not newer. */
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
  // Do not send it again after each new connection: the connections of all cells may break at once.
  const hasNewest = generation !== undefined && generation === agent.sentGeneration;
  const next = {
    ...state,
    ...(hasNewest && { wait: {} }),
    cell: startMs ? { ...cell, startMs: { ...cell.startMs, ...startMs } } : cell,
    agent: {
      ...withGeneration(agent, generation),
      client,
      connectedAt: nowMs,
      // In a series of short connections, the unreachable time counts from the first loss.
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
      // An agent that only responds for moments counts as unreachable.
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
