import { CodedError } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import { unsupportedVolumes } from "../../dispatch/desired-pod.ts";
import { afterLoss, carriedContainers, endByLoss, hasRun } from "../../status/lost-containers.ts";
import type { CellMemory } from "../../state/cell-memory.ts";
import { required, type StepContext, type StepActor } from "./step-context.ts";

/** Chooses the machine of a pod and writes its Cell, before the cloud is asked for anything. */
export async function createCell(context: StepContext, actor: StepActor): Promise<void> {
  const { memory } = actor;
  const { chooser, store, onEvent, clock } = context.options;
  const resolved = required(memory.resolved, "the pod is not known");
  const volumes = unsupportedVolumes(resolved.pod);
  if (volumes.length > 0) {
    throw new CodedError(
      "VOLUME_UNSUPPORTED",
      `Cannot give the pod its volumes ${volumes.join(", ")}: this kind is not supported`,
      {
        remedy: "Use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes",
      },
    );
  }
  if (memory.attempt === 0 && hasRun(resolved.pod.status ?? {}) && !goesOn(context, memory)) return;
  const began = clock.monotonic();
  const spec = await chooser.choose(memory);
  const { ended } = memory;
  const hasEnded = Object.keys(ended).length > 0;
  const cell = await store.create({ ...spec, ...(hasEnded && { ended }) });
  memory.startMs.api = clock.monotonic() - began;
  memory.waitReason = undefined;
  memory.status = cell.status ?? { phase: "Pending" };
  // A Cell that was just written has no instance; one that existed may have one.
  memory.instanceState = cell.status ? "unknown" : "none";
  const type = cell.spec.instanceType;
  onEvent(
    memory,
    "CellCreated",
    `Cell "${cell.metadata.name ?? ""}" of type ${type} was created for this pod`,
  );
  actor.cellSeen(cell);
  if (memory.cell) return;
  throw new CodedError(
    "CELL_BEING_DELETED",
    `Cannot create Cell "${cell.metadata.name ?? ""}": the one before it is still being deleted`,
    { retryable: true, remedy: "Remove the finalizers that others than kip put on it" },
  );
}

/**
 * Takes over the API's status of a pod whose cell was lost while kip was not running. False if the loss was the pod's end.
 */
function goesOn({ options }: StepContext, memory: CellMemory): boolean {
  const pod = required(memory.resolved, "the pod is not known").pod;
  const lists = afterLoss(pod, pod.status ?? {}, memory);
  const message = "The machine of this pod is gone";
  const end = endByLoss(pod, pod.status ?? {}, {
    message,
    finishedAt: wireTime(options.clock.now()),
  });
  if (end) {
    memory.end = end;
    memory.isPodFinished = true;
    return false;
  }
  Object.assign(memory, carriedContainers(pod, lists));
  return true;
}
