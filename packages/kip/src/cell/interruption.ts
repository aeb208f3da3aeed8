import type { OwnerReference, Pod } from "@kip/k8s-types";
import { isInUse, type CellState } from "../state/cell-state.ts";

/**
 * Milliseconds kept between the end of a pod's grace period and the end of its instance, for saving its logs and
 * reporting its end.
 */
const reserveMs = 5000;
/** The API's default, seconds. */
const defaultGraceSeconds = 30;

/**
 * Reason in the status of a Cell whose pod's eviction was requested: after a restart kip knows from it why the pod is
 * removed.
 */
export const evictedReason = "Evicted";

/** Seconds that a pod has to stop, by its spec. */
export function specGraceSeconds({ object }: CellState["pod"]): number {
  return object?.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds;
}

/**
 * Seconds that the containers have to stop. If the instance is taken back, at most the time that was left at the
 * notice; the value does not fall while that time passes.
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
  // A pod that was not sent to its cell yet loses nothing.
  return !isInUse(state.cell.status.phase) || interruptionStopIn(state, nowMs) <= 0;
}

/**
 * How long the containers of an evicted pod may go on while its replacement is not ready, milliseconds: until the
 * instance or the grace period in the API ends, less the pod's own grace period. 0 or less: they stop now.
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

/** Whether to request the pod's eviction, so that its owner makes a replacement while its containers go on. */
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
