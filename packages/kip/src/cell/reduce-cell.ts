import type { Moment } from "@kip/reconcile";
import { carriedContainers } from "../status/lost-containers.ts";
import { listsAfterLoss } from "../status/lost-cell.ts";
import { isAbandoned, podStatus } from "../status/pod-status.ts";
import { restrictReportToPod } from "../status/restrict-report.ts";
import type { CellChange, CellChanges } from "../state/cell-change.ts";
import { wasClaimed, withoutCell, type CellState, type Interruption } from "../state/cell-state.ts";
import { isStandby, type Cell, type CellClaim, type StandbyCell } from "../state/cell.ts";
import { cellConditions, withoutFigures } from "./cell-conditions.ts";
import { withDeadline, withDocument } from "./dispatch-pause.ts";
import { agentLost, connected, repeatPauseMs, reported, withGeneration } from "./reduce-agent.ts";

type Reducers = {
  readonly [K in keyof CellChanges]: (
    state: CellState,
    change: CellChange<K>,
    nowMs: number,
  ) => CellState;
};

/** If a cell had its pod for this long when it is lost, milliseconds, the count of losses starts over. */
const steadyCellMs = 600_000;
/**
 * How often to look for a seccomp profile that a container is waiting for, milliseconds. This polls, because other programs
 * fill the folder, which may be on a file system without events.
 */
const profileIntervalMs = 30_000;

/** The effect of each kind of change. */
const reducers: Reducers = {
  applied: (state, { resolved }, nowMs) => {
    const before = state.pod.resolved?.pod;
    const agent = withDeadline(state.agent, { before, next: resolved.pod }, nowMs);
    const report = agent.report && restrictReportToPod(agent.report, resolved.pod);
    return retried({
      ...state,
      pod: { ...state.pod, resolved, object: resolved.pod },
      agent: { ...agent, report, isDispatched: false, sentGeneration: undefined },
    });
  },
  resumed: (state, { pod }) => withPod(state, pod),
  removed: (state, { graceSeconds, pod }, nowMs) => {
    const seen = withPod(state, pod);
    const { wanted } = state.pod;
    if (wanted.kind === "remove" && wanted.graceSeconds <= graceSeconds) return seen;
    const asked = { wanted: { kind: "remove", graceSeconds }, removeSince: nowMs } as const;
    // The report of a lost cell is outdated: the status continues from the one published after the loss.
    const agent = isAbandoned(seen) ? { ...seen.agent, report: undefined } : seen.agent;
    return retried({ ...seen, pod: { ...seen.pod, ...asked }, agent });
  },
  finished: (state, { pod }) => {
    const seen = withPod(state, pod);
    if (state.end.isPodFinished && state.end.isInApi) return seen;
    return retried({ ...seen, end: { ...seen.end, isPodFinished: true, isInApi: true } });
  },
  cellSeen: (state, { cell }) => cellSeen(state, cell),
  cellGone: (state, { uid }) =>
    isPresent(state, uid) ? { ...state, cell: { ...state.cell, isDeleted: true } } : state,
  instanceEnded: (state, { token }) =>
    isPresent(state, token) ? { ...state, machine: { ...state.machine, state: "gone" } } : state,
  interrupted: (state, { notice, leftMs }, nowMs) => {
    const times = { noticeMs: leftMs, endsAtMs: nowMs + leftMs };
    const interruption = { ...state.machine.interruption, ...notice, ...times };
    return { ...state, machine: { ...state.machine, interruption } };
  },
  cloudAsked: ({ machine, ...state }, { isRunning }, nowMs) => ({
    ...state,
    machine: { ...machine, cloudAskedAt: nowMs, ...(isRunning && { cloudSeenAt: nowMs }) },
  }),
  reported,
  agentLost,
  reach: (state, { isOutOfReach }) => ({ ...state, agent: { ...state.agent, isOutOfReach } }),
  cellCreated: (state, { cell, apiMs }) => {
    // A claim that seemed to fail was written, and the watch was first: the pod has that Cell, and this one will be ended.
    if (state.cell.object && !isPresent(state, cell.metadata.uid)) return state;
    // The watch may have delivered the Cell first. Keep the conditions from then, because new ones would count as a change.
    const status = cell.status ?? state.cell.status;
    const startMs = { ...state.cell.startMs, api: apiMs };
    const created: CellState = {
      ...state,
      cell: { ...state.cell, status, startMs },
      // A Cell that was just written has no instance. One that already existed may have one.
      machine: { ...state.machine, state: cell.status ? "unknown" : "none" },
      wait: { ...state.wait, reason: undefined },
    };
    const next = cellSeen(created, cell);
    return next.cell.object ? forgetReported(next) : next;
  },
  carried: (state, { restartCounts, ended }) => ({
    ...state,
    containers: { ...state.containers, restartCounts, ended },
  }),
  machine: (state, { state: seen, isAsked = state.machine.isAsked }) =>
    withMachine(state, { state: seen, isAsked }),
  machineSeen: (state, { instance }) => machineSeen(state, instance),
  // The refusal may be a repeated answer to an earlier launch that succeeded. So ask the cloud before launching another
  // machine.
  refused: (state) => withMachine(state, { state: "unknown", isRefused: true }),
  launched: (state, { instance, cloudMs }, nowMs) => {
    const startMs = { ...state.cell.startMs, cloud: cloudMs };
    const agent = { ...state.agent, unreachableSince: nowMs };
    const cell = { ...state.cell, startMs };
    return machineSeen({ ...state, cell, agent, wait: {} }, instance);
  },
  running: (state, { instance, cloudMs }) => {
    const { startMs } = state.cell;
    const cloud = (startMs.cloud ?? 0) + cloudMs;
    const cell = { ...state.cell, startMs: { ...startMs, cloud } };
    return machineSeen({ ...state, cell }, instance);
  },
  tagged: (state, { tags }) => {
    const { instance } = state.machine;
    return instance ? withMachine(state, { instance: { ...instance, tags } }) : state;
  },
  terminated: (state) => ({ ...state, machine: { ...state.machine, state: "gone" } }),
  cellStatus: ({ cell, ...state }, change) => {
    const status = { ...cell.status, ...change.status };
    return { ...state, cell: { ...cell, status } };
  },
  dialing: (state, _change, nowMs) => {
    if (state.agent.unreachableSince !== undefined) return state;
    return { ...state, agent: { ...state.agent, unreachableSince: nowMs } };
  },
  connected,
  documentMade: (state, { bytes, isTaken }, nowMs) => {
    const isNewPod = !isTaken && state.cell.dispatchedAt === undefined;
    return { ...state, agent: withDocument(state.agent, { bytes, isNewPod }, nowMs) };
  },
  podSent: ({ containers, ...state }, { generation, ephemeral, machine }) => ({
    ...state,
    agent: {
      ...withGeneration(state.agent, generation),
      machine: machine ?? state.agent.machine,
    },
    containers: {
      ...containers,
      sentEphemeral: new Set([...containers.sentEphemeral, ...ephemeral]),
    },
  }),
  podHeld: (state, { generation }) => ({
    ...state,
    agent: withGeneration(state.agent, generation),
  }),
  dispatched: (state, { resolved, generation, renewInMs, missingProfiles }, nowMs) => ({
    ...state,
    cell: { ...state.cell, dispatchedAt: state.cell.dispatchedAt ?? nowMs },
    agent: {
      ...state.agent,
      // A change during the request is sent with the next dispatch.
      isDispatched: state.pod.resolved === resolved,
      sentGeneration: state.pod.resolved === resolved ? generation : undefined,
      endsSoonerAt: state.pod.resolved === resolved ? undefined : state.agent.endsSoonerAt,
      renewAt: renewInMs === undefined ? undefined : nowMs + renewInMs,
      missingProfiles:
        missingProfiles.length === 0
          ? undefined
          : { profiles: missingProfiles, lookAt: nowMs + profileIntervalMs },
    },
    wait: {},
  }),
  profilesLooked: ({ agent, ...state }, { missing }, nowMs) => {
    const { profiles } = agent.missingProfiles ?? {};
    const isSame = JSON.stringify(missing) === JSON.stringify(profiles);
    const missingProfiles = { profiles: missing, lookAt: nowMs + profileIntervalMs };
    const isDispatched = agent.isDispatched && isSame;
    const sentGeneration = isSame ? agent.sentGeneration : undefined;
    return { ...state, agent: { ...agent, missingProfiles, isDispatched, sentGeneration } };
  },
  evicted: (state) => withInterruption(state, { isEvicted: true }),
  replaced: (state) => withInterruption(state, { isReplaced: true }),
  draining: (state, _change, nowMs) => {
    if (state.agent.stopSince !== undefined) return state;
    return { ...state, agent: { ...state.agent, stopSince: nowMs } };
  },
  drained: (state, { graceSeconds, isEmpty }) => ({
    ...state,
    agent: {
      ...state.agent,
      drain: { graceSeconds },
      isEmpty: state.agent.isEmpty || isEmpty,
    },
  }),
  ended: (state, { podEnd }) => ({ ...state, end: { ...state.end, isPodFinished: true, podEnd } }),
  endRecorded: (state) => ({ ...state, end: { ...state.end, isRecorded: true } }),
  endAwaited: (state, _change, nowMs) => {
    if (state.cell.endAwaitedSince !== undefined) return state;
    return { ...state, cell: { ...state.cell, endAwaitedSince: nowMs } };
  },
  endInApi: (state) => ({ ...state, end: { ...state.end, isInApi: true } }),
  savingLogs: (state, _change, nowMs) => {
    if (state.agent.saveLogsSince !== undefined) return state;
    return { ...state, agent: { ...state.agent, saveLogsSince: nowMs } };
  },
  logsSaved: (state) => ({ ...state, agent: { ...state.agent, areLogsSaved: true } }),
  cellDeleted: (state, { isLost }, nowMs) => cellDeleted(state, isLost, nowMs),
  waits: (state, { reason, message, isTurn }) => {
    const reported = `${reason} ${withoutFigures(message)}`;
    return { ...state, wait: { reason: { reason, message, isTurn }, reported } };
  },
  publishAgain: (state) => ({ ...state, status: state.status && { ...state.status } }),
};

/**
 * Changes that are progress. After one of them, the same reason for waiting is reported again. Looking up a machine is not
 * progress.
 */
const progress: ReadonlySet<CellChange["kind"]> = new Set([
  "launched",
  "running",
  "connected",
  "dispatched",
  "drained",
  "ended",
  "endRecorded",
  "endInApi",
  "logsSaved",
  "terminated",
  "cellDeleted",
]);

/** Applies a change to the state of a pod and its cell. Pure, and the only place where that state changes. */
export function reduceCell(state: CellState, change: CellChange, now: Moment): CellState {
  // The kind selects the function that accepts exactly this change.
  const reduce = reducers[change.kind] as (
    state: CellState,
    change: CellChange,
    nowMs: number,
  ) => CellState;
  const next = withEndSince(reduce(state, change, now.monotonicMs), now.monotonicMs);
  if (next === state || change.kind === "publishAgain") return next;
  const shown = withStatus(progress.has(change.kind) ? forgetReported(next) : next, now);
  return withConditions(state, shown, now);
}

/** Notes since when the cell has to end because its pod has ended, or because its deletion was requested. */
function withEndSince(state: CellState, nowMs: number): CellState {
  const { cell, end } = state;
  const mustEnd = end.isPodFinished || cell.isDeleted || cell.status.phase === "Draining";
  if (!cell.object || !mustEnd || cell.endSince !== undefined) return state;
  return { ...state, cell: { ...cell, endSince: nowMs } };
}

/**
 * Derives the conditions of the cell from the rest of the state. Skipped for the most frequent change, a report of
 * the agent, which changes none.
 */
function withConditions(before: CellState, state: CellState, { wallMs }: Moment): CellState {
  const { cell } = state;
  const isSame =
    cell === before.cell &&
    state.wait === before.wait &&
    state.machine === before.machine &&
    state.agent.client === before.agent.client &&
    state.agent.isOutOfReach === before.agent.isOutOfReach;
  if (isSame || !cell.object) return state;
  const conditions = cellConditions(state, wallMs);
  if (conditions === cell.status.conditions) return state;
  return { ...state, cell: { ...cell, status: { ...cell.status, conditions } } };
}

/** Derives the pod's status from the rest of the state. A pod for which kip has done nothing yet keeps its status. */
function withStatus(state: CellState, { monotonicMs, wallMs }: Moment): CellState {
  const { pod, cell, agent, wait, end } = state;
  const isKnown = state.status ?? cell.object ?? agent.report ?? wait.reason ?? end.podEnd;
  const shown = pod.object && isKnown && podStatus(state, pod.object, wallMs);
  const status = shown ?? state.status;
  const startTime = status?.startTime ?? pod.resolved?.pod.status?.startTime;
  if (pod.activeSince !== undefined || startTime === undefined) return { ...state, status };
  const activeMs = Math.max(0, wallMs - Date.parse(startTime));
  return { ...state, status, pod: { ...pod, activeSince: monotonicMs - activeMs } };
}

/** A new request ends the pauses of the plan. */
function retried(state: CellState): CellState {
  return forgetReported({
    ...state,
    agent: { ...state.agent, dialAt: undefined },
    history: { ...state.history, createAt: undefined },
  });
}

function withInterruption(state: CellState, change: Partial<Interruption>): CellState {
  const { machine } = state;
  if (!machine.interruption) return state;
  return {
    ...state,
    machine: { ...machine, interruption: { ...machine.interruption, ...change } },
  };
}

function forgetReported(state: CellState): CellState {
  if (state.wait.reported === undefined) return state;
  return { ...state, wait: { ...state.wait, reported: undefined } };
}

function withPod(state: CellState, object: CellState["pod"]["object"]): CellState {
  return object ? { ...state, pod: { ...state.pod, object } } : state;
}

/** Whether this UID is that of the present Cell; a Cell's UID is the token of its instance. */
function isPresent({ cell }: CellState, uid: string): boolean {
  return cell.object?.metadata.uid === uid;
}

function cellSeen(state: CellState, seen: Cell | StandbyCell): CellState {
  const { cell, history, end } = state;
  const { uid, deletionTimestamp } = seen.metadata;
  // The watch lags behind our own writes: a Cell that was removed must not come back.
  if (history.goneCells.has(uid)) return state;
  if (cell.object && !isPresent(state, uid)) return state;
  const isDeleted = cell.isDeleted || deletionTimestamp !== undefined;
  // The status in memory may be newer than the one in the API, which may lack the instance's ID.
  const isStarting = cell.status.phase === "Pending" && seen.status !== undefined;
  const status = isStarting ? { ...cell.status, ...seen.status } : cell.status;
  const isNewEnd = status.podEnd !== undefined && end.podEnd === undefined;
  const isSame = isDeleted === cell.isDeleted && status === cell.status && !isNewEnd;
  if (cell.object && isSame) return state;
  // A standby cell has none of these fields.
  const claim: Partial<CellClaim> = isStandby(seen) ? {} : seen.spec;
  const { attempt = 0, restartCounts = {}, ended = {} } = claim;
  return {
    ...state,
    cell: { ...cell, object: cell.object ?? seen, isDeleted, status },
    history: { ...history, attempt },
    containers: { ...state.containers, restartCounts, ended },
    ...(isNewEnd && {
      end: { ...end, podEnd: status.podEnd, isRecorded: true, isPodFinished: true },
    }),
  };
}

function machineSeen(
  state: CellState,
  instance: CellChanges["machineSeen"]["instance"],
): CellState {
  const { state: seen } = instance;
  const present = seen === "terminated" ? "gone" : seen;
  return withMachine(state, { instance, state: present, isRefused: false });
}

/** Once an instance has ended, it stays ended. A response that says otherwise is outdated, because clouds' lists lag behind. */
function withMachine(state: CellState, change: Partial<CellState["machine"]>): CellState {
  if (state.machine.state === "gone") return state;
  return { ...state, machine: { ...state.machine, ...change } };
}

/** Forgets the cell. Keeps the pod, and the facts about its containers that its next cell needs. */
function cellDeleted(state: CellState, isLost: boolean, nowMs: number): CellState {
  const { cell, history, pod, containers } = state;
  const lists = isLost && wasClaimed(cell.status) ? listsAfterLoss(state) : undefined;
  const isSteady = cell.dispatchedAt !== undefined && nowMs - cell.dispatchedAt >= steadyCellMs;
  const losses = isLost ? (isSteady ? 0 : history.losses) + 1 : 0;
  const goneCells = new Set(history.goneCells);
  if (cell.object) goneCells.add(cell.object.metadata.uid);
  return {
    ...state,
    ...withoutCell,
    history: {
      attempt: isLost && cell.object ? history.attempt + 1 : history.attempt,
      goneCells,
      losses,
      createAt: losses > 0 ? nowMs + repeatPauseMs(state.podRef, losses) : undefined,
    },
    ...(pod.object &&
      lists && {
        containers: {
          ...containers,
          ...carriedContainers(pod.object, lists, containers.sentEphemeral),
        },
        status: { ...state.status, ...lists },
      }),
  };
}
