import type { OwnerReference, Pod } from "@kip/k8s-types";
import { isInUse, type CellState } from "../state/cell-state.ts";

/** Milliseconds between the end of a pod's grace period and that of its instance: its logs are saved, and its end reported. */
const reserveMs = 5000;
/** The API's default, seconds. */
const defaultGraceSeconds = 30;

/** Why the Cell of a pod stays in its phase after the pod's eviction was asked for; outlives a restart of kip. */
export const evictedReason = "Evicted";

/** Seconds that a pod has to stop, by its spec. */
export function specGraceSeconds({ object }: CellState["pod"]): number {
  return object?.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds;
}

/**
 * Seconds that the containers have to stop. Those of an instance that is taken back have what was left at the notice, if that is
 * less: the figure stays the same while the time runs out.
 */
export function stopGraceSeconds(state: CellState): number {
  const { wanted } = state.pod;
  if (wanted.kind === "remove" && !isEvicted(state)) return wanted.graceSeconds;
  const own = noticedGraceSeconds(state);
  return wanted.kind === "remove" ? Math.min(wanted.graceSeconds, own) : own;
}

function noticedGraceSeconds({ pod, machine: { interruption } }: CellState): number {
  const grace = specGraceSeconds(pod);
  if (!interruption) return grace;
  // 0 would kill the containers at once.
  return Math.min(grace, Math.max(1, Math.floor((interruption.noticeMs - reserveMs) / 1000)));
}

/** Milliseconds until the containers must begin to stop, because the cloud takes the instance back; infinite if it does not. */
export function interruptionStopIn(state: CellState, nowMs: number): number {
  const { interruption } = state.machine;
  if (!interruption) return Infinity;
  return interruption.endsAtMs - reserveMs - noticedGraceSeconds(state) * 1000 - nowMs;
}

/** Whether the pod has to leave its cell, because the cloud takes the instance back and there is no more time. */
export function mustLeave(state: CellState, nowMs: number): boolean {
  if (!state.machine.interruption) return false;
  // A pod that was not handed over yet loses nothing.
  return !isInUse(state.cell.status.phase) || interruptionStopIn(state, nowMs) <= 0;
}

/**
 * Milliseconds for which the containers of an evicted pod may go on until its replacement is ready: to the end of the instance, or
 * of the grace period that the API gives, less the pod's own. 0 or less: they stop now.
 */
export function heldIn(state: CellState, nowMs: number): number {
  const { pod, machine, agent } = state;
  if (pod.wanted.kind !== "remove" || pod.removeSince === undefined) return 0;
  if (!isEvicted(state) || machine.interruption?.isReplaced === true) return 0;
  if (agent.stopSince !== undefined || state.cell.status.phase !== "Claimed") return 0;
  // A client that deletes the pod with a shorter grace period ends the delay.
  const surplusMs = (pod.wanted.graceSeconds - specGraceSeconds(pod)) * 1000;
  const removalIn = pod.removeSince + surplusMs - nowMs;
  return Math.min(interruptionStopIn(state, nowMs), removalIn);
}

/** The grace period of an eviction, seconds: all the time that is left. */
export function evictionGraceSeconds(endsAtMs: number, nowMs: number): number {
  return Math.max(1, Math.floor((endsAtMs - reserveMs - nowMs) / 1000));
}

/** Whether the pod's eviction is to be asked for: its owner then makes a replacement, while its containers go on. */
export function mustEvict({ pod, cell, machine, end }: CellState): boolean {
  const { interruption } = machine;
  if (!interruption || interruption.isEvicted === true || end.isPodFinished) return false;
  if (pod.wanted.kind !== "run" || cell.status.phase !== "Claimed") return false;
  return pod.object !== undefined && replacingOwner(pod.object) !== undefined;
}

/** The owner of a pod if it replaces an evicted pod at once, under another name: a ReplicaSet or ReplicationController. */
export function replacingOwner({ metadata }: Pod): OwnerReference | undefined {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner?.kind === "ReplicaSet" && owner.apiVersion.startsWith("apps/")) return owner;
  return owner?.kind === "ReplicationController" && owner.apiVersion === "v1" ? owner : undefined;
}

function isEvicted({ cell, machine }: CellState): boolean {
  return machine.interruption !== undefined && cell.status.reason === evictedReason;
}
