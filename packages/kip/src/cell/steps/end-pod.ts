import { backoffDelay, hasCode } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import { storedEnd } from "../../status/pod-end.ts";
import type { CellActor } from "../cell-actor.ts";
import type { CellMemory } from "../../state/cell-memory.ts";
import type { PodEnd } from "../../state/cell.ts";
import { lossEnd } from "../observe-cell.ts";
import { required, type StepContext } from "./step-context.ts";

/** Pauses between two looks at the API's pod. */
const lookBackoff = { initialMs: 1000, maxMs: 300_000 };
/** How long the end of a pod that is to be removed may hold its Cell, milliseconds: the object goes anyway. */
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

/** Writes how the pod ended into its Cell: once the machine is ended, nothing else knows it. */
export async function recordEnd(context: StepContext, memory: CellMemory): Promise<void> {
  const cell = required(memory.cell, "there is no cell");
  const end = required(memory.end, "the pod has not ended");
  const write = async (podEnd: PodEnd): Promise<void> => {
    // Noted before it is written: a newer status that takes its place must have it, too.
    memory.status = { ...memory.status, podEnd };
    await context.statuses.write(cell, memory.status);
  };
  try {
    await write(storedEnd(end));
  } catch (error) {
    if (!hasCode(error, "K8S_INVALID", "K8S_REQUEST_FAILED")) throw error;
    // What matters most is whether the pod succeeded.
    const { name } = cell.metadata;
    context.options.logger.warn("End of a pod could not be written in full", { cell: name });
    await write({ phase: end.phase });
  }
  memory.isEndRecorded = true;
}

/**
 * Resolves when the pod's end is in the API, or the pod gone there. Its status is published again each time that it is
 * not: its writer may have given up.
 */
export async function awaitEndInApi(
  context: StepContext,
  actor: CellActor,
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
    const pauseMs = backoffDelay(attempt, lookBackoff);
    await clock.sleep(isRemoved ? Math.min(pauseMs, removalWaitMs / 4) : pauseMs, signal);
  }
}
