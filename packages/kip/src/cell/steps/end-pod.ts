import { backoffDelay } from "@kip/base";
import { K8sError, wireTime } from "@kip/k8s-client";
import { deadlineExceeded } from "@kip/virtual-kubelet/status";
import type { CellChange } from "../../state/cell-change.ts";
import type { PodEnd } from "../../state/cell.ts";
import { lossEnd } from "../../status/lost-cell.ts";
import { cellLost } from "../../status/lost-containers.ts";
import { endedWaiting, storedEnd } from "../../status/pod-end.ts";
import type { CellContext } from "../cell-step.ts";
import { cellOf, required, type CellTools } from "./step-context.ts";

/** Pauses between two reads of the pod. */
const readBackoff = { initialMs: 1000, maxMs: 300_000 };
/** How long the Cell of a pod that is being removed waits for the pod's end in the API, milliseconds. */
const removalWaitMs = 60_000;

/** Ends a pod that has waited for its cell longer than it may be active. */
export async function expire({
  state,
  change,
}: Pick<CellContext, "state" | "change">): Promise<CellChange> {
  const { object } = state().pod;
  const lists = object && endedWaiting(state(), object);
  change({ kind: "ended", podEnd: { phase: "Failed", ...deadlineExceeded, ...lists } });
  return { kind: "waits", ...deadlineExceeded };
}

/** Ends a pod whose cell is gone and that does not get another one. */
export async function endPod(
  { clock, onEvent }: CellTools,
  context: CellContext,
): Promise<CellChange> {
  const { name } = cellOf(context).metadata;
  const message = `Cell "${name}" is gone; the pod is not started again (restartPolicy Never)`;
  const finishedAt = wireTime(clock.now());
  const state = context.state();
  const podEnd = required(lossEnd(state, { message, finishedAt }), "the pod goes on");
  if (podEnd.reason === cellLost) onEvent(state.podRef.uid, cellLost, message);
  return { kind: "ended", podEnd };
}

/** Writes how the pod ended into its Cell. Once the instance has ended, there is no other copy. */
export async function recordEnd(
  { statuses, logger }: CellTools,
  context: CellContext,
): Promise<CellChange> {
  const { state, change } = context;
  const cell = cellOf(context);
  const end = required(state().end.podEnd, "the pod has not ended");
  const write = async (podEnd: PodEnd): Promise<void> => {
    // Set it in the state before writing, so that a newer status that replaces this one also has it.
    change({ kind: "cellStatus", status: { podEnd } });
    await statuses.write(cell, state().cell.status);
  };
  try {
    await write(storedEnd(end));
  } catch (error) {
    if (!K8sError.is(error, "K8S_INVALID", "K8S_REQUEST_FAILED")) throw error;
    // The phase matters most, because it shows whether the pod succeeded.
    logger.warn("Could not write the end of a pod in full", { cell: cell.metadata.name });
    await write({ phase: end.phase });
  }
  return { kind: "endRecorded" };
}

/**
 * Resolves when the API has the pod's end or no longer has the pod. Until then, publishes the status again at each check,
 * because the virtual kubelet may have given up writing it.
 */
export async function awaitEndInApi(
  { store, clock }: CellTools,
  { state, change, signal }: CellContext,
): Promise<CellChange> {
  change({ kind: "endAwaited" });
  const since = state().cell.endAwaitedSince ?? clock.monotonic();
  for (let attempt = 0; ; attempt++) {
    const { pod, podRef } = state();
    const isRemoved = pod.wanted.kind === "remove";
    const isOverdue = isRemoved && clock.monotonic() - since >= removalWaitMs;
    if (isOverdue || (await store.readPod(podRef)) !== "open") return { kind: "endInApi" };
    signal.throwIfAborted();
    change({ kind: "publishAgain" });
    const pauseMs = backoffDelay(attempt, readBackoff);
    await clock.sleep(isRemoved ? Math.min(pauseMs, removalWaitMs / 4) : pauseMs, signal);
  }
}
