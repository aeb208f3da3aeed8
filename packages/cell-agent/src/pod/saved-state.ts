import type { DesiredPod } from "@kip/agent-api";
import { allocate } from "../state/allocation.ts";
import { containersOf, newRecord } from "../state/container-record.ts";
import { endIn } from "../state/pod-end.ts";
import { noPod, type PodState } from "../state/pod-state.ts";
import type { SavedPod } from "../storage/pod-store.ts";

/** The part of the state that survives the agent. */
export function savedState(state: PodState): SavedPod {
  return {
    startTimeMs: state.startTimeMs,
    endMs: state.end?.endMs,
    reason: state.reason?.reason,
    message: state.reason?.message,
    isDisruption: state.reason?.isDisruption,
    isReleased: state.isReleased,
    isNetworkInForce: state.isNetworkInForce,
    timingsMs: state.timings.values,
    events: state.events,
    allocation: state.allocation,
    devices: state.devices,
    containers: [...state.containers.values()].map(({ saved }) => saved),
  };
}

/** The state that an earlier process of the agent saved, before anything is checked. */
export function restoredState(pod: DesiredPod, saved: SavedPod, nowMs: number): PodState {
  const {
    startTimeMs,
    endMs,
    reason,
    message = "",
    isDisruption,
    isReleased,
    events,
    devices,
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
    // A newer pod may have been saved before its allocation was.
    allocation: allocate(pod, saved.allocation),
    devices,
    end: endMs === undefined ? undefined : endIn(Math.max(0, endMs - nowMs), nowMs),
    reason: reason === undefined ? undefined : { reason, message, isDisruption },
    startTimeMs,
    timings: { values: saved.timingsMs },
    events,
    isReleased,
    isNetworkInForce,
  };
}
