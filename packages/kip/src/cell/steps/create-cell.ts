import { KipError } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { restartPolicy, unsupportedVolumes } from "../../dispatch/desired-pod.ts";
import type { CellActor } from "../cell-actor.ts";
import { required, type StepContext } from "./step-context.ts";

/** Chooses the machine of a pod and writes its Cell, before the cloud is asked for anything. */
export async function createCell(context: StepContext, actor: CellActor): Promise<void> {
  const { memory } = actor;
  const { chooser, store, onEvent, clock } = context.options;
  const resolved = required(memory.resolved, "the pod is not known");
  const volumes = unsupportedVolumes(resolved.pod);
  if (volumes.length > 0) {
    throw new KipError(
      "VOLUME_UNSUPPORTED",
      `Cannot give the pod its volumes ${volumes.join(", ")}: this kind is not supported`,
      {
        remedy: "Use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes",
      },
    );
  }
  if (restartPolicy(resolved.pod) === "Never" && hasRun(resolved.pod)) {
    // It ran on a cell that is gone; with this policy it is not started a second time.
    memory.isPodFinished = true;
    memory.waitingFor = { reason: "CellLost", message: "The machine of this pod is gone" };
    return;
  }
  const began = clock.monotonic();
  const spec = await chooser.choose(memory);
  const cell = await store.create(spec);
  memory.startMs.api = clock.monotonic() - began;
  memory.waitingFor = undefined;
  memory.status = cell.status ?? { phase: "Pending" };
  // A Cell just written has no instance; one found may have.
  memory.instanceState = cell.status ? "unknown" : "none";
  const type = cell.spec.instanceType;
  onEvent(
    memory,
    "CellCreated",
    `Cell "${cell.metadata.name ?? ""}" of type ${type} was created for this pod`,
  );
  actor.cellSeen(cell);
  if (memory.cell) return;
  throw new KipError(
    "CELL_BEING_DELETED",
    `Cannot create Cell "${cell.metadata.name ?? ""}": the one before it is still being deleted`,
    { retryable: true, remedy: "Remove the finalizers that others than kip put on it" },
  );
}

function hasRun(pod: Pod): boolean {
  return (pod.status?.containerStatuses ?? []).some(
    ({ state }) => state?.running ?? state?.terminated,
  );
}
