import { backoffDelay } from "@kip/base";
import { K8sError, wireTime } from "@kip/k8s-client";
import { storedEnd } from "../../status/pod-end.ts";
import type { CellMemory } from "../../state/cell-memory.ts";
import type { PodEnd } from "../../state/cell.ts";
import { lossEnd } from "../../status/lost-cell.ts";
import { required, type StepContext, type StepActor } from "./step-context.ts";

/** Pauses between two reads of the pod. */
const readBackoff = { initialMs: 1000, maxMs: 300_000 };
/** How long the Cell of a pod that is being removed waits for the pod's end in the API, milliseconds. */
const removalWaitMs = 60_000;

/** Ends a pod whose cell is gone, and which does not get another one. */
export async function endPod(context: StepContext, memory: CellMemory): Promise<void> {
  const cell = required(memory.cell, "there is no cell");
  const { clock, onEvent } = context.options;
  const message = `Cell "${cell.metadata.name ?? ""}" is gone; the pod is not started again (restartPolicy Never)`;
  const finishedAt = wireTime(clock.now());
  const end = required(lossEnd(memory, { message, finishedAt }), "the pod goes on");
  memory.end = end;
  memory.isPodFinished = true;
  if (end.reason === "CellLost") onEvent(memory, "CellLost", message);
}

/** Writes how the pod ended into its Cell: once the instance has ended, there is no other copy. */
export async function recordEnd(context: StepContext, memory: CellMemory): Promise<void> {
  const cell = required(memory.cell, "there is no cell");
  const end = required(memory.end, "the pod has not ended");
  const write = async (podEnd: PodEnd): Promise<void> => {
    // Set before it is written: a newer status that replaces this one must have it, too.
    memory.status = { ...memory.status, podEnd };
    await context.statuses.write(cell, memory.status);
  };
  try {
    await write(storedEnd(end));
  } catch (error) {
    if (!K8sError.is(error, "K8S_INVALID", "K8S_REQUEST_FAILED")) throw error;
    // The phase matters most: it says whether the pod succeeded.
    const { name } = cell.metadata;
    context.options.logger.warn("Could not write the end of a pod in full", { cell: name });
    await write({ phase: end.phase });
  }
  memory.isEndRecorded = true;
}

/**
 * Resolves when the API has the pod's end, or no longer has the pod. Each time that it has not, the status is published
 * again: the virtual kubelet may have given up writing it.
 */
export async function awaitEndInApi(
  context: StepContext,
  actor: StepActor,
  signal: AbortSignal,
): Promise<void> {
  const { memory } = actor;
  const { store, clock } = context.options;
  memory.endAwaitedSince ??= clock.monotonic();
  for (let attempt = 0; ; attempt++) {
    const isRemoved = memory.wanted.kind === "remove";
    const isOverdue = isRemoved && clock.monotonic() - memory.endAwaitedSince >= removalWaitMs;
    if (isOverdue || (await store.readPod(memory.podRef)) !== "open") {
      memory.isEndInApi = true;
      return;
    }
    signal.throwIfAborted();
    actor.statusChanged();
    const pauseMs = backoffDelay(attempt, readBackoff);
    await clock.sleep(isRemoved ? Math.min(pauseMs, removalWaitMs / 4) : pauseMs, signal);
  }
}
