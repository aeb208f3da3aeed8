import { errorText, isCodedError } from "@kip/base";
import type { CellChange } from "../../state/cell-change.ts";
import { interruptionMessage } from "../../status/disruption.ts";
import type { CellContext } from "../cell-step.ts";
import { evictedReason, evictionGraceSeconds, replacingOwner } from "../interruption.ts";
import { cellOf, required, type CellTools } from "./step-context.ts";

/** Pause before a refused eviction is requested again, milliseconds. The same as in `kubectl drain`. */
const refusedPauseMs = 5000;

/**
 * Evicts the pod, so that its owner creates a replacement. The grace period is all the time that the instance has left. A
 * refused eviction (by a PodDisruptionBudget, for example) is repeated until the plan aborts the step. Then the containers stop
 * in time, and the pod gets another cell.
 */
export async function evict(
  { statuses, replacement, clock, onProblem, logger }: CellTools,
  context: CellContext,
): Promise<CellChange> {
  const { state, change, signal } = context;
  const { podRef, machine } = state();
  const interruption = required(machine.interruption, "the instance is not taken back");
  // Write this first: the next process of kip has to know why the pod is removed.
  const noted = { reason: evictedReason, message: interruptionMessage(interruption) };
  change({ kind: "cellStatus", status: noted });
  await statuses.write(cellOf(context), state().cell.status);
  for (let attempt = 0; ; attempt++) {
    try {
      const { endsAtMs } = state().machine.interruption ?? interruption;
      await replacement.evict(podRef, evictionGraceSeconds(endsAtMs, clock.monotonic()));
      return { kind: "evicted" };
    } catch (error) {
      signal.throwIfAborted();
      if (!isCodedError(error)) throw error;
      logger.warn("Could not evict a pod", { podUid: podRef.uid, err: error });
      const message = `Cannot have this pod replaced before its instance ends: ${errorText(error)}`;
      if (attempt === 0) onProblem(podRef.uid, "EvictionRefused", message);
    }
    await clock.sleep(refusedPauseMs, signal);
  }
}

/** Resolves when the evicted pod's owner has a ready pod in its place. */
export async function awaitReplacement(
  { replacement, onEvent }: CellTools,
  { state, signal }: CellContext,
): Promise<CellChange> {
  const { pod, podRef, machine } = state();
  const owner = pod.object && replacingOwner(pod.object);
  if (!owner) return { kind: "replaced" };
  const { endsAt } = required(machine.interruption, "the instance is not taken back");
  const message = `The containers go on until ${owner.kind} "${owner.name}" has a ready pod in place of this one, but not after ${endsAt}`;
  onEvent(podRef.uid, "StopDelayed", message);
  await replacement.ready(podRef, owner, signal);
  return { kind: "replaced" };
}
