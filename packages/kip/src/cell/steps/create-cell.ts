import { wireTime } from "@kip/k8s-client";
import { unsupportedVolumes } from "../../dispatch/desired-pod.ts";
import { annotationsWithoutEffect } from "../../annotations/read-annotations.ts";
import { ProviderError } from "../../errors.ts";
import type { CellChange } from "../../state/cell-change.ts";
import { afterLoss, carriedContainers, endByLoss, hasRun } from "../../status/lost-containers.ts";
import type { CellContext } from "../cell-step.ts";
import { chooseCell } from "./choose-cell.ts";
import { required, type CellTools } from "./step-context.ts";

/** Chooses the machine of a pod and writes its Cell, before the cloud is asked for anything. */
export async function createCell(
  tools: CellTools,
  context: CellContext,
): Promise<CellChange | undefined> {
  const { store, onEvent, clock } = tools;
  const { state, change } = context;
  const { pod } = required(state().pod.resolved, "the pod is not known");
  const volumes = unsupportedVolumes(pod);
  if (volumes.length > 0) throw volumesUnsupported(volumes);
  if (state().history.attempt === 0 && hasRun(pod.status ?? {})) {
    const taken = takeOver(tools, context);
    if (taken.kind === "ended") return taken;
    change(taken);
  }
  const spec = await chooseCell(tools, context);
  const began = clock.monotonic();
  const cell = await store.create(spec);
  change({ kind: "cellCreated", cell, apiMs: clock.monotonic() - began });
  const { name } = cell.metadata;
  const type = cell.spec.instanceType;
  const message = `Cell "${name}" of type ${type} was created for this pod`;
  onEvent(state().podRef.uid, "CellCreated", message);
  if (state().history.attempt === 0)
    for (const sentence of annotationsWithoutEffect(pod))
      tools.onProblem(state().podRef.uid, "AnnotationIgnored", sentence);
  if (state().cell.object) return undefined;
  throw new ProviderError(
    "CELL_BEING_DELETED",
    `Cannot create Cell "${name}": the one before it is still being deleted`,
    { retryable: true, remedy: "Remove the finalizers that others than kip put on it" },
  );
}

/** Takes over the API's status of a pod whose cell was lost while kip was not running; that loss may be the pod's end. */
function takeOver({ clock }: CellTools, { state }: CellContext): CellChange<"ended" | "carried"> {
  const { containers, pod: part } = state();
  const { pod } = required(part.resolved, "the pod is not known");
  const status = pod.status ?? {};
  const message = "The machine of this pod is gone";
  const podEnd = endByLoss(pod, status, { message, finishedAt: wireTime(clock.now()) });
  if (podEnd) return { kind: "ended", podEnd };
  const lists = afterLoss(pod, status, containers);
  return { kind: "carried", ...carriedContainers(pod, lists) };
}

function volumesUnsupported(volumes: readonly string[]): ProviderError {
  return new ProviderError(
    "VOLUME_UNSUPPORTED",
    `Cannot give the pod its volumes ${volumes.join(", ")}: this kind is not supported`,
    { remedy: "Use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes" },
  );
}
