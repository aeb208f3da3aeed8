import type { DesiredPod } from "@kip/agent-api";
import { containersOf, newRecord } from "../state/container-record.ts";
import { endIn } from "../state/pod-end.ts";
import { noPod, type PodState } from "../state/pod-state.ts";
import type { SavedPod } from "../storage/pod-store.ts";

/** The part of the state that outlives the agent. */
export function savedState(state: PodState): SavedPod {
  return {
    startTimeMs: state.startTimeMs,
    endMs: state.end?.endMs,
    reason: state.reason?.reason,
    message: state.reason?.message,
    isReleased: state.isReleased,
    isNetworkInForce: state.isNetworkInForce,
    timingsMs: state.timings.values,
    events: state.events,
    containers: [...state.containers.values()].map(({ saved }) => saved),
  };
}

/** The state that an earlier life of the agent has saved, as it is before anything is looked at. */
export function restoredState(pod: DesiredPod, saved: SavedPod, nowMs: number): PodState {
  const {
    startTimeMs,
    endMs,
    reason,
    message = "",
    isReleased,
    events,
    isNetworkInForce = false,
  } = saved;
  const records = containersOf(pod).map(({ desired, kind }) => {
    const own = saved.containers.find(({ name }) => name === desired.name);
    return [desired.name, newRecord(desired, kind, own)] as const;
  });
  return {
    ...noPod,
    desired: pod,
    containers: new Map(records),
    end: endMs === undefined ? undefined : endIn(Math.max(0, endMs - nowMs), nowMs),
    reason: reason === undefined ? undefined : { reason, message },
    startTimeMs,
    timings: { values: saved.timingsMs },
    events,
    isReleased,
    isNetworkInForce,
  };
}
