import { ownValue } from "@kip/base";
import { allocate, begun, failed, settled } from "./allocation.ts";
import { isSame } from "./amounts.ts";
import {
  containersOf,
  hasEnded,
  newRecord,
  type ContainerRecord,
  type SavedContainer,
} from "./container-record.ts";
import { countCrash } from "./crash-backoff.ts";
import { goDuration } from "./go-duration.ts";
import { isFinished } from "./plan.ts";
import { earlierEnd, endIn } from "./pod-end.ts";
import { withEvent } from "./pod-events.ts";
import type { ContainerEnded, PodChange } from "./pod-change.ts";
import type { PodState } from "./pod-state.ts";
import { reduceContainer, withDesired } from "./reduce-container.ts";
import { withImageReady, withStart } from "./start-timings.ts";

/** Minimum time for a pod to end, for its hooks. The kubelet's, also for a grace period of 0. */
const minGraceMs = 1000;

/** Applies a change to the pod. Pure, and the only function that changes the state. */
export function reduce(state: PodState, change: PodChange): PodState {
  const next = applied(state, change);
  if (change.kind === "started") return withResizeSettled(next, change.startedAtMs);
  return "nowMs" in change ? withResizeSettled(next, change.nowMs) : next;
}

/** Ends a resize when everything that is running has the resources it should have. */
function withResizeSettled(state: PodState, nowMs: number): PodState {
  const { allocation, desired, containers, isTakenOver } = state;
  if (!desired || !isTakenOver) return state;
  const end = settled(allocation, desired, containers.values());
  if (!end) return state;
  return {
    ...state,
    allocation: end.allocation,
    events: withEvent(state, end.event, nowMs),
  };
}

function applied(state: PodState, change: PodChange): PodState {
  switch (change.kind) {
    case "put":
      return putPod(state, change);
    case "takenOver":
      return takenOver(state, change);
    case "end": {
      const graceMs = Math.max(change.graceMs, minGraceMs);
      const end = earlierEnd(state.end, endIn(graceMs, change.nowMs));
      return { ...state, end, reason: change.reason ?? state.reason };
    }
    case "event":
      return { ...state, events: withEvent(state, change.event, change.nowMs) };
    case "prepared":
      return { ...state, resources: change.resources, isPrepareFailed: false };
    case "prepareFailed":
      return { ...state, isPrepareFailed: true };
    case "devicesGiven":
      return { ...state, devices: change.devices };
    case "podLimited":
      return { ...state, allocation: { ...state.allocation, podLimits: change.limits } };
    case "resizeFailed": {
      const { allocation, event } = failed(state, change.message, change.nowMs);
      const events = event ? withEvent(state, event, change.nowMs) : state.events;
      return { ...state, allocation, events };
    }
    case "networkApplied":
      return { ...state, networkChanges: state.networkChanges + 1, isNetworkInForce: true };
    case "released":
      return { ...state, resources: undefined, isReleased: true };
    case "discarded":
      return { ...state, leftovers: state.leftovers.filter((id) => id !== change.runId) };
    case "exited": {
      const { exit } = change;
      const name = [...state.containers].find(([, { saved }]) => saved.run?.id === exit.id)?.[0];
      const isNewExit = (record: ContainerRecord): boolean =>
        record.saved.run?.exit === undefined && record.exited === undefined;
      return withRecord(state, name, (one) => (isNewExit(one) ? { ...one, exited: exit } : one));
    }
    case "ended":
      return containerEnded(state, change);
    default: {
      const next = withRecord(state, change.container, (one) => reduceContainer(one, change));
      return next === state ? state : { ...next, timings: timingsAfter(next, change) };
    }
  }
}

function timingsAfter(state: PodState, change: PodChange): PodState["timings"] {
  const { timings, containers } = state;
  if (change.kind === "imageReady")
    return withImageReady(timings, change.timingsMs, change.monotonicMs);
  if (change.kind === "started") return withStart(timings, containers.values(), change.monotonicMs);
  return timings;
}

function putPod(
  state: PodState,
  { pod, nowMs, monotonicMs }: Extract<PodChange, { kind: "put" }>,
): PodState {
  const allocation = allocate(pod, state.desired && state.allocation);
  const isResized = (name: string): boolean =>
    !isSame(
      ownValue(state.allocation.containers, name) ?? {},
      ownValue(allocation.containers, name) ?? {},
    );
  const records = containersOf(pod).map(({ desired, kind }) => {
    const { name } = desired;
    const record = state.containers.get(name);
    const next = record
      ? withDesired(record, desired, { isResized: isResized(name) })
      : newRecord(desired, kind);
    return [name, next] as const;
  });
  const next = {
    ...state,
    desired: pod,
    containers: new Map([...state.containers, ...records]),
    allocation,
  };
  if (state.desired) {
    const event = begun(pod, state.allocation, allocation);
    return event ? { ...next, events: withEvent(next, event, nowMs) } : next;
  }
  const startTimeMs = nowMs - (pod.activeForMs ?? 0);
  return { ...next, startTimeMs, timings: { values: {}, receivedAtMs: monotonicMs } };
}

function takenOver(
  state: PodState,
  { found, leftovers: more = [] }: Extract<PodChange, { kind: "takenOver" }>,
): PodState {
  const containers = new Map(state.containers);
  for (const [name, one] of found) {
    const record = containers.get(name);
    const run = record?.saved.run;
    if (!record || !run) continue;
    if (one.kind === "exited")
      containers.set(name, { ...record, exited: record.exited ?? one.exit });
    else {
      const startedAtMs = run.startedAtMs ?? one.startedAtMs;
      // Why an earlier process of the agent was stopping it is not known, so its exit code decides.
      const saved = { ...record.saved, run: { ...run, startedAtMs, restarts: undefined } };
      containers.set(name, { ...record, saved, isWatched: true });
    }
  }
  const leftovers = [...new Set([...state.leftovers, ...more])];
  return { ...state, containers, leftovers, isTakenOver: true };
}

/** If the container is to be restarted and has ended too often, it is held back. Otherwise it waits for nothing. */
function containerEnded(state: PodState, change: ContainerEnded): PodState {
  const { container: name, runId, exit, endedAtMs, nowMs } = change;
  const { desired: pod } = state;
  const record = state.containers.get(name);
  const run = record?.saved.run;
  if (!pod || !record || run?.id !== runId || run.exit) return state;
  const saved = { ...record.saved, run: { ...run, exit }, ready: false, started: false };
  const { waiting = record.waiting } = change;
  const over = { ...record, saved, exited: undefined, isWatched: false, waiting };
  const leftovers = change.needsDiscard ? [...state.leftovers, runId] : state.leftovers;
  const next = { ...withRecord(state, name, () => over), leftovers };
  if (!isRestarted(next, over))
    return withRecord(next, name, () => ({ ...over, waiting: undefined }));
  const sinceMs = run.restarts === true ? previousEnd(saved) : endedAtMs;
  // As in a kubelet, which does not count if it knows no end to count from.
  if (sinceMs === undefined)
    return withRecord(next, name, () => ({ ...over, retryAtMs: endedAtMs }));
  const { delayMs, backoff } = countCrash(saved.backoff, endedAtMs, sinceMs);
  const held = { ...over, saved: { ...saved, backoff }, retryAtMs: endedAtMs + delayMs };
  if (delayMs === 0) return withRecord(next, name, () => held);
  const where = `pod=${pod.name}_${pod.namespace}(${pod.uid})`;
  const message = `back-off ${goDuration(delayMs)} restarting failed container=${name} ${where}`;
  const event = {
    type: "Warning",
    reason: "BackOff",
    message: `Back-off restarting failed container ${name} in pod ${where.slice("pod=".length)}`,
    container: name,
  } as const;
  return {
    ...withRecord(next, name, () => ({
      ...held,
      waiting: { reason: "CrashLoopBackOff", message },
    })),
    events: withEvent(state, event, nowMs),
  };
}

/**
 * When the previous run ended. A kubelet that stops a container in order to restart it does both in one sync of the pod, and
 * then only knows this end.
 */
function previousEnd({ lastTerminated }: SavedContainer): number | undefined {
  return lastTerminated && Date.parse(lastTerminated.finishedAt);
}

function isRestarted({ desired, end, containers }: PodState, record: ContainerRecord): boolean {
  if (!desired || end) return false;
  if (isFinished({ pod: desired, containers: [...containers.values()] })) return false;
  return !hasEnded(record, desired.restartPolicy);
}

function withRecord(
  state: PodState,
  name: string | undefined,
  next: (record: ContainerRecord) => ContainerRecord,
): PodState {
  const before = name === undefined ? undefined : state.containers.get(name);
  if (name === undefined || before === undefined) return state;
  const after = next(before);
  if (after === before) return state;
  return { ...state, containers: new Map(state.containers).set(name, after) };
}
