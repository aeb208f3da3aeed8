import { wireTime } from "@kip/k8s-client";
import { hasAnswered, type CellState } from "../state/cell-state.ts";
import {
  cellPhases,
  isStandby,
  type CellCondition,
  type CellPhase,
  type CellStatus,
} from "../state/cell.ts";

/** A condition to write, without its transition time. */
type Wanted = Omit<CellCondition, "lastTransitionTime">;
/** A condition as read from the API. Another client may have written it. */
type Known = Pick<CellCondition, "type" | "status"> & Partial<CellCondition>;
type Text = readonly [reason: string, message: string];

const agentUnreachable = "AgentUnreachable";

/** Reasons of {@link endTexts}. */
const endReasons: ReadonlySet<string> = new Set([
  "NotNeeded",
  "PodFinished",
  "PodDeleted",
  "CellLost",
]);

/**
 * Reasons of conditions that are not true because the start has not reached them, or the end has begun: nothing is
 * wrong.
 */
const ordinaryReasons: ReadonlySet<string> = new Set([
  "InstanceNotStarted",
  "InstanceNotRunning",
  "AgentNotConnected",
  "StandsBy",
  "PodNotSent",
  ...endReasons,
]);

/**
 * The conditions of the present cell, in the order of its start: `Launched`, `Running`, `Ready`, `Claimed`. The first one that
 * is not true tells what the cell is waiting for. Each keeps its transition time while its status stays the same. A condition
 * that has not changed is the same object as before, and so is a list without changes.
 */
export function cellConditions(state: CellState, wallMs: number): readonly CellCondition[] {
  const { conditions: known = [], phase } = state.cell.status;
  const wanted = phase === "Terminating" ? ending(state, known) : starting(state, known);
  const next = wanted.map((each) => {
    const before = known.find(({ type }) => type === each.type);
    if (before && isSame(before, each)) return before;
    const isOld = before?.status === each.status;
    return { ...each, lastTransitionTime: isOld ? before.lastTransitionTime : wireTime(wallMs) };
  });
  const hasChanged = next.length !== known.length || next.some((each, at) => each !== known[at]);
  return hasChanged ? next : known;
}

/**
 * Whether conditions have changed and need to be written. Not if the phase has changed, because the step that changes it writes
 * both.
 */
export function hasNewConditions(before: CellStatus | undefined, now: CellStatus): boolean {
  if (before?.conditions === undefined || before.phase !== now.phase) return false;
  return before.conditions !== now.conditions;
}

/** Whether the conditions show a problem, or a wait that is not an ordinary part of a start or an end. */
export function isHeldUp(status: CellStatus | undefined): boolean {
  const { conditions = [] } = status ?? {};
  return conditions.some((each) => each.status === "False" && !ordinaryReasons.has(each.reason));
}

/** The message without its numbers (free memory, place in the queue), which vary and do not count as a change. */
export function withoutFigures(message: string): string {
  return message.replace(/\d+(\.\d+)*/g, "#");
}

function isSame(a: Known, b: Wanted): boolean {
  const text = ({ message = "" }: Known): string => withoutFigures(message);
  return a.status === b.status && a.reason === b.reason && text(a) === text(b);
}

function starting(state: CellState, known: readonly Known[]): readonly Wanted[] {
  const { cell, wait } = state;
  const { phase } = cell.status;
  const isPast = (other: CellPhase): boolean =>
    cellPhases.indexOf(phase) >= cellPhases.indexOf(other);
  const lost = unreachable(state, known);
  const conditions = [
    condition("Launched", isPast("Launching"), launchTexts(state)),
    condition("Running", isPast("Booting"), runTexts(state)),
    condition("Ready", isPast("Ready") && !lost, {
      yes: ["AgentAnswers", "Kip is connected to the agent on the instance"],
      no: lost ?? ["AgentNotConnected", "The agent on the instance has not answered yet"],
    }),
    condition("Claimed", isPast("Claimed"), claimTexts(state)),
  ];
  const waiting = lost ? undefined : wait.reason;
  const first = conditions.findIndex(({ status }) => status === "False");
  return conditions.map((each, at) => {
    if (at !== first || !waiting) return each;
    const { reason, message } = waiting;
    return { ...each, reason, message };
  });
}

/**
 * The conditions of a cell that is being ended. Only `Ready` changes, and only once: deleting the pod later does not replace
 * the first reason.
 */
function ending(state: CellState, known: readonly CellCondition[]): readonly Wanted[] {
  if (known.some(({ reason }) => endReasons.has(reason))) return known;
  const conditions = known.length > 0 ? known : starting(state, known);
  const [reason, message] = endTexts(state);
  return conditions.map((each) =>
    each.type === "Ready" ? { type: "Ready", status: "False", reason, message } : each,
  );
}

function condition(
  type: CellCondition["type"],
  isTrue: boolean,
  { yes, no }: { readonly yes: Text; readonly no: Text },
): Wanted {
  const [reason, message] = isTrue ? yes : no;
  return { type, status: isTrue ? "True" : "False", reason, message };
}

function launchTexts({ cell }: CellState): { readonly yes: Text; readonly no: Text } {
  const { instanceType = "", launchType = "" } = cell.object?.spec ?? {};
  const { instanceID: id } = cell.status;
  // If kip ended before it recorded the ID, it may still have sent the pod.
  const instance = id === undefined ? "An instance" : `Instance "${id}"`;
  return {
    yes: ["InstanceStarted", `${instance} (${instanceType}, ${launchType})`],
    no: ["InstanceNotStarted", "The cloud has not started an instance yet"],
  };
}

function runTexts({ cell }: CellState): { readonly yes: Text; readonly no: Text } {
  const { ip = "", startedFrom } = cell.status;
  const from = startedFrom === undefined ? "" : `, started from ${startedFrom}`;
  return {
    yes: ["InstanceRunning", `The instance runs at ${ip}${from}`],
    no: ["InstanceNotRunning", "The cloud does not say yet that the instance runs"],
  };
}

function claimTexts({ cell, podRef }: CellState): { readonly yes: Text; readonly no: Text } {
  const isWithoutPod = cell.object !== undefined && isStandby(cell.object);
  return {
    yes: ["PodSent", `The instance has pod "${podRef.namespace}/${podRef.name}"`],
    no: isWithoutPod
      ? ["StandsBy", "No pod has taken this cell yet"]
      : ["PodNotSent", "The pod has not been sent to the agent yet"],
  };
}

/**
 * Why a cell whose agent had responded is unreachable: for a while, or for so long that the cloud was asked for its instance.
 */
function unreachable(
  { agent, machine, cell }: CellState,
  known: readonly Known[],
): Text | undefined {
  const { client, unreachableSince = Infinity, isOutOfReach } = agent;
  const { cloudAskedAt = -Infinity, cloudSeenAt = -Infinity } = machine;
  if (!hasAnswered(cell.status) || (client && !isOutOfReach)) return undefined;
  const before = known.find(({ reason }) => reason === agentUnreachable);
  const message = "The agent on the instance does not answer";
  if (client || cloudAskedAt < unreachableSince) {
    // An earlier process of kip may have detected it.
    if (!isOutOfReach && !before) return undefined;
    return [agentUnreachable, before?.message ?? message];
  }
  const isRunning = cloudSeenAt >= cloudAskedAt;
  const cloud = isRunning ? "says that the instance runs" : "does not say that the instance runs";
  return [agentUnreachable, `${message}; the cloud ${cloud}`];
}

function endTexts({ cell, end, pod }: CellState): Text {
  if (cell.object && isStandby(cell.object))
    return ["NotNeeded", "The cell ends before a pod has taken it"];
  if (end.isPodFinished) return ["PodFinished", "The pod has ended"];
  if (pod.wanted.kind === "remove") return ["PodDeleted", "The pod is deleted"];
  return ["CellLost", "The cell can no longer run its pod"];
}
