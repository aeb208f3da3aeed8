import type { DesiredPod } from "@kip/agent-api";
import { isRunning, nextAttempt, type ContainerRecord } from "./container-record.ts";

/** One thing to do for the pod. Steps of one plan are independent of each other. */
export type Step =
  /** Make namespaces, network and volumes. */
  | { readonly kind: "prepare" }
  | { readonly kind: "pull"; readonly container: string }
  /** Show that the next pull is held back. */
  | { readonly kind: "hold"; readonly container: string }
  | { readonly kind: "start"; readonly container: string }
  | {
      readonly kind: "stop";
      readonly container: string;
      readonly message: string;
      /** Another run follows, whatever exit code this one ends with. */
      readonly restarts: boolean;
      /** In place of the pod's, unless the pod is ending. */
      readonly graceSeconds?: number;
    }
  /** Everything has ended for good: free what the pod had. */
  | { readonly kind: "release" }
  /** Nothing to do before this time. */
  | { readonly kind: "wake"; readonly atMs: number };

/** What a plan is made from. */
export interface PodView {
  readonly pod: Pick<DesiredPod, "restartPolicy">;
  readonly containers: readonly ContainerRecord[];
  /** Namespaces, network and volumes. */
  readonly preparation: "none" | "underway" | "done" | "released";
  /** Not to be prepared before, after a failure. */
  readonly prepareAtMs: number;
  /** The pod is to end: it was deleted or has run too long. */
  readonly isStopping: boolean;
  /** When the pod will have run too long. */
  readonly deadlineMs?: number;
  readonly nowMs: number;
}

/**
 * What to do next for a pod. Pure: the same view gives the same steps, so an agent that was killed
 * between two of them goes on where it was.
 */
export function planPod(view: PodView): readonly Step[] {
  if (view.preparation === "released") return [];
  if (view.isStopping || isFinished(view)) return planEnd(view);
  const steps: Step[] = [];
  if (view.preparation === "none") steps.push(at(view, view.prepareAtMs, { kind: "prepare" }));
  for (const record of view.containers) steps.push(...planImage(view, record));
  for (const record of view.containers) steps.push(...planReplacement(view, record));
  if (view.preparation === "done") {
    for (const record of startable(view)) steps.push(...planStart(view, record));
  }
  if (view.deadlineMs !== undefined) steps.push({ kind: "wake", atMs: view.deadlineMs });
  return steps;
}

/** Whether no main container will run again and no init container stands in the way. */
export function isFinished(view: Pick<PodView, "pod" | "containers">): boolean {
  if (view.pod.restartPolicy === "Never" && view.containers.some(failedInit)) return true;
  const main = view.containers.filter((record) => record.kind === "main");
  return main.length > 0 && main.every((record) => hasEnded(record, view.pod.restartPolicy));
}

/** Main containers end first, then the sidecars, last one first: they may serve the others' end. */
function planEnd(view: PodView): readonly Step[] {
  const steps: Step[] = [];
  const others = view.containers.filter((record) => record.kind !== "sidecar");
  const sidecars = view.containers.filter((record) => record.kind === "sidecar").reverse();
  const isOpen = (record: ContainerRecord): boolean =>
    isRunning(record) || record.activity !== undefined;
  const firstSidecar = sidecars.find(isOpen);
  const next = others.some(isOpen) ? others : firstSidecar ? [firstSidecar] : [];
  for (const record of next) {
    if (isRunning(record) && record.activity === undefined)
      steps.push(stop(record, `Stopping container ${record.desired.name}`, false));
  }
  const isQuiet = !view.containers.some(isOpen) && view.preparation !== "underway";
  if (isQuiet) steps.push({ kind: "release" });
  return steps;
}

/** Images of all containers are pulled early and at the same time. */
function planImage(view: PodView, record: ContainerRecord): readonly Step[] {
  const { image, desired, saved } = record;
  if (image.kind === "pulling" || isRunning(record) || record.activity !== undefined) return [];
  if (saved.run && hasEnded(record, view.pod.restartPolicy)) return [];
  const pull: Step = { kind: "pull", container: desired.name };
  if (image.kind === "failed") {
    const { holdAtMs } = image;
    if (holdAtMs === undefined) return [at(view, image.retryAtMs, pull)];
    return [at(view, holdAtMs, { kind: "hold", container: desired.name })];
  }
  if (image.kind === "unknown") return [at(view, record.retryAtMs, pull)];
  const isStale = desired.imagePullPolicy === "Always" && image.attempt < nextAttempt(record);
  return isStale ? [at(view, record.retryAtMs, pull)] : [];
}

/** By the kubelet's rules: a changed image restarts a container under each policy, a failed probe not with Never. */
function planReplacement(view: PodView, record: ContainerRecord): readonly Step[] {
  if (!isRunning(record) || record.activity !== undefined) return [];
  const { name, image } = record.desired;
  if (record.kind !== "init" && record.saved.run?.image !== image)
    return [stop(record, `Container ${name} definition changed, will be restarted`, true)];
  if (record.kill === undefined) return [];
  const { message, graceSeconds } = record.kill;
  const step = stop(record, message, view.pod.restartPolicy !== "Never");
  return [{ ...step, ...(graceSeconds !== undefined && { graceSeconds }) }];
}

/** Containers that may start now as far as the others are concerned. */
function startable(view: PodView): readonly ContainerRecord[] {
  const result = view.containers.filter((record) => record.kind === "ephemeral");
  const main = view.containers.filter((record) => record.kind === "main");
  // Once a main container has run, initialisation is over for good; sidecars are still restarted.
  const isInitialised = main.some((record) => record.saved.run !== undefined);
  for (const record of view.containers) {
    if (record.kind === "sidecar") {
      result.push(record);
      if (!isInitialised && !(isRunning(record) && record.saved.started)) return result;
    }
    if (record.kind === "init" && !isInitialised && record.saved.run?.exit?.exitCode !== 0)
      return [...result, record];
  }
  return [...result, ...main];
}

function planStart(view: PodView, record: ContainerRecord): readonly Step[] {
  if (isRunning(record) || record.activity !== undefined) return [];
  if (record.saved.run && hasEnded(record, view.pod.restartPolicy)) return [];
  const { image } = record;
  const isFresh =
    image.kind === "ready" &&
    (record.desired.imagePullPolicy !== "Always" || image.attempt === nextAttempt(record));
  if (!isFresh) return [];
  return [at(view, record.retryAtMs, { kind: "start", container: record.desired.name })];
}

/** Whether the container has ended and its restart policy leaves it so. */
export function hasEnded(
  record: ContainerRecord,
  restartPolicy: DesiredPod["restartPolicy"],
): boolean {
  const { run } = record.saved;
  if (run === undefined) return false;
  // A run that never began says nothing about the container.
  if (run.exit === undefined || run.restarts === true) return false;
  if (record.kind === "ephemeral") return true;
  if (record.kind === "sidecar") return false;
  if (record.kind === "init") return run.exit.exitCode === 0 || restartPolicy === "Never";
  if (restartPolicy === "Always") return false;
  return restartPolicy === "Never" || run.exit.exitCode === 0;
}

function failedInit(record: ContainerRecord): boolean {
  const { exit } = record.saved.run ?? {};
  return record.kind === "init" && exit !== undefined && exit.exitCode !== 0;
}

function stop(
  record: ContainerRecord,
  message: string,
  restarts: boolean,
): Extract<Step, { kind: "stop" }> {
  return { kind: "stop", container: record.desired.name, message, restarts };
}

function at(view: PodView, atMs: number, step: Step): Step {
  return atMs > view.nowMs ? { kind: "wake", atMs } : step;
}
