import { wireTime } from "@kip/k8s-client";
import { checkBandwidth } from "../../dispatch/bandwidth.ts";
import { checkPodSize } from "../../dispatch/document-size.ts";
import { checkKernelHostname } from "../../dispatch/pod-network-files.ts";
import { readSeccompProfiles } from "../../dispatch/seccomp-profiles.ts";
import type { ResolvedPod } from "@kip/virtual-kubelet";
import { hasRun } from "@kip/virtual-kubelet/status";
import { annotationsWithoutEffect } from "../../annotations/read-annotations.ts";
import { ProviderError } from "../../errors.ts";
import type { CellChange } from "../../state/cell-change.ts";
import type { Cell } from "../../state/cell.ts";
import { afterLoss, carriedContainers, endByLoss } from "../../status/lost-containers.ts";
import type { CellContext } from "../cell-step.ts";
import { chooseCell, passTurn } from "./choose-cell.ts";
import { wantedStandby } from "./standby-machine.ts";
import { required, type CellTools } from "./step-context.ts";

/** Chooses a pod's machine and writes its Cell before any request to the cloud, or claims a standby cell. */
export async function createCell(
  tools: CellTools,
  context: CellContext,
): Promise<CellChange | undefined> {
  const { onEvent } = tools;
  const { state, change } = context;
  const resolved = required(state().pod.resolved, "the pod is not known");
  const { pod } = resolved;
  if (pod.spec.setHostnameAsFQDN === true)
    checkKernelHostname(pod, (await tools.dns()).clusterDomain);
  checkBandwidth(pod);
  if (state().history.attempt === 0 && hasRun(pod.status ?? {})) {
    const taken = takeOver(tools, context);
    if (taken.kind === "ended") return taken;
    change(taken);
  }
  await checkSize(tools, context, resolved);
  await tools.orphans?.endedFor(state().podRef.uid, {
    signal: context.signal,
    onWait: (message) => change({ kind: "waits", reason: "CellWaits", message }),
  });
  let claimed: Cell | undefined;
  let cell: Cell | undefined;
  while (!cell) {
    claimed = await claimCell(tools, context);
    cell = claimed ?? (await newCell(tools, context));
  }
  const { name } = cell.metadata;
  // A new Cell and its instance are reported by one event.
  if (claimed) {
    const message = `Cell "${name}" of type ${cell.spec.instanceType}, which stood by, was taken for this pod`;
    onEvent(state().podRef.uid, "CellCreated", message);
  }
  if (state().history.attempt === 0)
    for (const sentence of annotationsWithoutEffect(pod, tools.driver.launchExtras))
      tools.onProblem(state().podRef.uid, "AnnotationIgnored", sentence);
  if (state().cell.object) return undefined;
  throw new ProviderError(
    "CELL_BEING_DELETED",
    `Cannot create Cell "${name}": the one before it is still being deleted`,
    { retryable: true, remedy: "Remove the finalizers that others than kip put on it" },
  );
}

/**
 * Checks the sizes of pods one after the other, yielding to the event loop in between. Making a document of several MiB takes
 * tens of milliseconds, and hundreds of pods may arrive at once.
 */
async function checkSize(
  { sizeChecks, settings }: CellTools,
  { state, signal }: CellContext,
  resolved: ResolvedPod,
): Promise<void> {
  const seccompProfiles = await readSeccompProfiles(resolved.pod, settings().seccompProfileRoot);
  const ended = new Set(Object.keys(state().containers.ended));
  // The document itself is not kept.
  const make = () => ({ document: checkPodSize(resolved, { seccompProfiles, ended }), bytes: 0 });
  const size = { namespace: state().podRef.namespace, bytes: 0 };
  await sizeChecks.send(size, { make, use: async () => {} }, signal);
}

/** Claims a standby cell with the same machine that the pod would get, if one is ready. */
async function claimCell(tools: CellTools, context: CellContext): Promise<Cell | undefined> {
  const { standby, clock } = tools;
  if (standby?.isUsed !== true) return undefined;
  const wanted = await wantedStandby(tools, context);
  const began = clock.monotonic();
  const cell = await standby.claim(wanted);
  if (!cell) return undefined;
  context.change({ kind: "cellCreated", cell, apiMs: clock.monotonic() - began });
  return cell;
}

function zonesOf({ chooser }: CellTools, { state }: CellContext): readonly string[] {
  return chooser.zonesOf(required(state().pod.resolved, "the pod is not known").pod);
}

function podLabels({ state }: CellContext): Readonly<Record<string, string>> | undefined {
  return state().pod.resolved?.pod.metadata.labels;
}

/** Undefined if the pod waited for capacity and can take a standby cell now. */
async function newCell(tools: CellTools, context: CellContext): Promise<Cell | undefined> {
  const { store, clock, standby } = tools;
  try {
    const spec = await chooseCell(tools, context);
    if (!spec) return undefined;
    const began = clock.monotonic();
    const cell = await store.create(spec, podLabels(context), context.signal);
    if (context.signal.aborted) tools.shortages.passed(context.state().podRef.uid); // the pod is removed
    context.change({ kind: "cellCreated", cell, apiMs: clock.monotonic() - began });
    standby?.missed({ spec, zones: zonesOf(tools, context) });
    return cell;
  } catch (error) {
    passTurn(tools, context, error);
    throw error;
  }
}

/** Takes over the API's status of a pod whose cell was lost while kip was not running. That loss may be the pod's end. */
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
