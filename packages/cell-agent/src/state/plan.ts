import { runsAgainWhenKilled, type DesiredPod } from "@kip/agent-api";
import type { NoArguments, Plan, StepOf } from "@kip/reconcile";
import { resizeOf, type Allocation } from "./allocation.ts";
import {
  hasEnded,
  hasRun,
  isBusy,
  isRunning,
  nextAttempt,
  type ContainerRecord,
  type StopReason,
} from "./container-record.ts";
import { longestPauseMs } from "./crash-backoff.ts";

interface OfContainer {
  readonly container: string;
}
interface OfRun {
  readonly runId: string;
}

/** The steps of a pod's life and their arguments. */
export interface PodStepArgs {
  /** Make namespaces, network and volumes. */
  readonly prepare: NoArguments;
  /** Put the next change of the cluster's network in force. Runs again and again as long as the pod exists. */
  readonly network: NoArguments;
  /** Watch that the pod does not take too much of the disk. Runs as long as the pod does. */
  readonly watchDisk: NoArguments;
  /** Bring files and volumes up to date with a newer pod. */
  readonly refresh: NoArguments;
  /** Change the CPU and memory of the running containers, and of the pod as a whole, to what was granted. */
  readonly resize: NoArguments;
  /** Remove mounts, namespaces and volumes of the pod, because all of it has ended for good. */
  readonly release: NoArguments;
  /** End the pod, because it has run for longer than its `activeDeadlineSeconds`. */
  readonly expire: NoArguments;
  /** Get the image of a container, and those of the volumes that it mounts. */
  readonly pull: OfContainer & { readonly image: string };
  /** Report `ImagePullBackOff`: the next pull waits for its back-off. */
  readonly hold: OfContainer;
  /** Create a container, start it, and run its `postStart` hook. */
  readonly start: OfContainer;
  /** Run the `preStop` hook, send the stop signal when the container `hasTurn`, and SIGKILL when its time is over. */
  readonly stop: OfContainer & StopReason & { readonly hasTurn: boolean };
  /** Probe as long as the run lasts. */
  readonly probe: OfContainer & OfRun & { readonly isStopping: boolean };
  /** Record how a run ended, with its termination message. */
  readonly noteExit: OfContainer & OfRun;
  /** Remove everything of a run except its log. */
  readonly discard: OfRun;
}

/** One thing to do for the pod. Steps of one plan are independent of each other. */
export type Step = StepOf<PodStepArgs>;

/** Input of the plan. */
export interface PodView {
  readonly pod: Pick<DesiredPod, "restartPolicy">;
  readonly containers: readonly ContainerRecord[];
  /** State of namespaces, network and volumes. stale: older than the pod. */
  readonly preparation: "none" | "stale" | "done" | "released";
  /**
   * State of the rules for Services and policies: not needed, or the first change is not in force yet, or in force. @default
   * "none"
   */
  readonly network?: "none" | "waiting" | "inForce";
  /** Whether something of the pod has run and can fill the disk. @default false */
  readonly fillsDisk?: boolean;
  /** Runs that have left something to be removed. */
  readonly leftovers?: readonly string[];
  /** The pod's resources on the cell. @default nothing is to be resized */
  readonly allocation?: Allocation;
  /** Whether the pod-level resources differ from those that were applied. @default false */
  readonly isPodResized?: boolean;
  /** Whether the pod should end: it was deleted or has run too long. */
  readonly isStopping: boolean;
  /** When the pod will have run too long. */
  readonly deadlineMs?: number | undefined;
  readonly nowMs: number;
}

/** A step and its due time. 0 for at once. */
interface Due {
  readonly step: Step;
  readonly atMs: number;
}

/**
 * The next steps for a pod, and those that continue. Pure: the same view results in the same steps. So an agent that was killed
 * between two steps continues where it was.
 */
export function planPod(view: PodView): Plan<Step> {
  const all = dueSteps(view);
  const later = all.flatMap(({ atMs }) => (atMs > view.nowMs ? [atMs] : []));
  return {
    steps: all.filter(({ atMs }) => atMs <= view.nowMs).map(({ step }) => step),
    wakeAtMs: later.length > 0 ? Math.min(...later) : undefined,
  };
}

/** Steps in one lane run one after the other. */
export function laneOf(step: Step): string {
  switch (step.kind) {
    case "prepare":
    case "refresh":
    case "release":
      return "resources";
    case "expire":
      return "deadline";
    case "network":
    case "watchDisk":
    case "resize":
      return step.kind;
    case "pull":
      return `pull ${step.container} ${step.image}`;
    case "hold":
    case "start":
    case "stop":
      return `container ${step.container}`;
    default:
      return `${step.kind} ${step.runId}`;
  }
}

/** Whether no main container will run again, and no init container prevents that. */
export function isFinished(view: Pick<PodView, "pod" | "containers">): boolean {
  if (
    view.containers.some((record) => failedInit(record) && hasEnded(record, view.pod.restartPolicy))
  )
    return true;
  const main = view.containers.filter((record) => record.kind === "main");
  return main.length > 0 && main.every((record) => hasEnded(record, view.pod.restartPolicy));
}

function dueSteps(view: PodView): readonly Due[] {
  const { preparation, deadlineMs, containers, network = "none" } = view;
  const going = [
    ...(network === "none" || preparation === "released" ? [] : [now({ kind: "network" })]),
    ...(view.leftovers ?? []).map((runId) => now({ kind: "discard", runId })),
    ...containers.flatMap((record) => goingOn(view, record)),
  ];
  if (preparation === "released") return going;
  const ending = view.isStopping || isFinished(view);
  if (ending) return [...going, ...planEnd(view)];
  const deadline: Due[] =
    deadlineMs === undefined ? [] : [{ step: { kind: "expire" }, atMs: deadlineMs }];
  // The pod is about to end, so nothing new is started.
  if (deadlineMs !== undefined && deadlineMs <= view.nowMs) return [...deadline, ...going];
  return [
    ...(preparation === "none" ? [now({ kind: "prepare" })] : []),
    ...refresh(view),
    ...containers.flatMap((record) => planImage(view, record)),
    ...containers.flatMap((record) => planReplacement(view, record)),
    ...planResize(view),
    // No process of the pod runs before its policy is in force.
    ...(preparation === "none" || network === "waiting"
      ? []
      : startable(view).flatMap((one) => planStart(view, one))),
    ...going,
    ...(view.fillsDisk === true ? [now({ kind: "watchDisk" })] : []),
    ...deadline,
  ];
}

/** The steps that are running and should continue: the reconciler aborts a running step that is not in the plan. */
function goingOn(view: PodView, record: ContainerRecord): readonly Due[] {
  const { activity, exited, saved, image, desired } = record;
  const { run } = saved;
  const { name: container } = desired;
  const steps: Due[] = [];
  if (image.kind === "pulling" && !view.isStopping) steps.push(now(pull(record)));
  if (!run || run.exit) return steps;
  if (exited) return [...steps, now({ kind: "noteExit", container, runId: run.id })];
  const isStopping = activity?.kind === "stopping";
  if (isStopping) steps.push(now(stop(record, activity, hasTurn(view, record))));
  else if (activity && !view.isStopping) steps.push(now({ kind: "start", container }));
  if (record.isWatched && isRunning(record))
    steps.push(now({ kind: "probe", container, runId: run.id, isStopping }));
  return steps;
}

/**
 * All containers are stopped at once, and their preStop hooks run. The signals of sidecars wait for their turn, see
 * {@link hasTurn}.
 */
function planEnd(view: PodView): readonly Due[] {
  if (!view.containers.some(isOpen)) return [now({ kind: "release" })];
  const stops = view.containers
    .filter((record) => isRunning(record) && !isBusy(record))
    .map((record) =>
      stop(record, { message: stopping(record), restarts: false }, hasTurn(view, record)),
    );
  return [...refresh(view), ...stops.map(now)];
}

function isOpen(record: ContainerRecord): boolean {
  return isRunning(record) || isBusy(record);
}

/**
 * Other containers may need sidecars while they end. So in a pod that ends, each sidecar gets its signal when the main
 * containers and the sidecars after it have ended. As in a kubelet, it does not wait for debugging or init containers.
 */
function hasTurn(view: PodView, record: ContainerRecord): boolean {
  if (record.kind !== "sidecar" || !(view.isStopping || isFinished(view))) return true;
  const { containers } = view;
  const place = containers.indexOf(record);
  return !containers.some(
    (one, index) =>
      (one.kind === "main" || (one.kind === "sidecar" && index > place)) && isOpen(one),
  );
}

function stopping({ desired }: ContainerRecord): string {
  return `Stopping container ${desired.name}`;
}

function refresh({ preparation }: PodView): readonly Due[] {
  return preparation === "stale" ? [now({ kind: "refresh" })] : [];
}

/** Images of all containers are pulled early and concurrently. */
function planImage(view: PodView, record: ContainerRecord): readonly Due[] {
  const { image, desired, saved, retryAtMs } = record;
  if (image.kind === "pulling" || isRunning(record) || isBusy(record)) return [];
  if (saved.run && hasEnded(record, view.pod.restartPolicy)) return [];
  if (image.kind === "failed") {
    const { holdAtMs } = image;
    if (holdAtMs === undefined) return [afterPause(view, image.retryAtMs, pull(record))];
    return [afterPause(view, holdAtMs, { kind: "hold", container: desired.name })];
  }
  const isStale = image.kind === "ready" && !isFresh(record);
  return image.kind === "unknown" || isStale ? [afterPause(view, retryAtMs, pull(record))] : [];
}

/**
 * By the kubelet's rules, a changed image restarts a container with any restart policy, and a failed probe does not with Never.
 */
function planReplacement(view: PodView, record: ContainerRecord): readonly Due[] {
  if (!isRunning(record) || isBusy(record)) return [];
  const { name, image } = record.desired;
  if (record.kind !== "init" && record.saved.run?.image !== image)
    return [
      now(stop(record, { message: killing(record, "definition changed", true), restarts: true })),
    ];
  if (view.allocation && resizeOf(record, view.allocation) === "restart") {
    const message = `Container ${name} resize requires restart`;
    return [now(stop(record, { message, restarts: true }))];
  }
  const { kill } = record;
  if (kill === undefined) return [];
  // Unlike after a failed probe, its exit code decides whether it restarts.
  if (kill.kind === "postStart")
    return [now(stop(record, { message: "FailedPostStartHook", restarts: false }))];
  const restarts = runsAgainWhenKilled(record.desired, view.pod.restartPolicy);
  const message = killing(record, `failed ${kill.probe} probe`, restarts);
  return [now(stop(record, { message, restarts, graceSeconds: kill.graceSeconds }))];
}

/** Text of the Killing event. The kubelet does not mention that sidecars are restarted, because they always are. */
function killing({ kind, desired }: ContainerRecord, what: string, restarts: boolean): string {
  if (kind === "sidecar") return `Init container ${desired.name} ${what}`;
  return `Container ${desired.name} ${what}${restarts ? ", will be restarted" : ""}`;
}

/** Waits for containers that a resize restarts, because others may need their resources. */
function planResize(view: PodView): readonly Due[] {
  const { containers, allocation, isPodResized, preparation } = view;
  if (!allocation || preparation === "none") return [];
  const resizes = containers.map((record) => resizeOf(record, allocation));
  if (resizes.includes("restart")) return [];
  if (isPodResized !== true && !resizes.includes("inPlace")) return [];
  return [afterPause(view, allocation.retryAtMs ?? 0, { kind: "resize" })];
}

/** Containers that may start now, without waiting for others to start or end. */
function startable(view: PodView): readonly ContainerRecord[] {
  const result = view.containers.filter((record) => record.kind === "ephemeral");
  const main = view.containers.filter((record) => record.kind === "main");
  // Once a main container has run, initialisation is over for good. Sidecars are still restarted.
  const isInitialised = main.some(hasRun);
  // As in a kubelet, only the last one that has run holds up the next. Sidecars before it may be restarting.
  const last = view.containers.findLastIndex(
    (record) => (record.kind === "init" || record.kind === "sidecar") && nextAttempt(record) > 0,
  );
  for (const [index, record] of view.containers.entries()) {
    if (record.kind === "sidecar") {
      result.push(record);
      const holdsUp = index >= last && !(isRunning(record) && record.saved.started);
      if (!isInitialised && holdsUp) return result;
    }
    if (record.kind === "init" && !isInitialised && record.saved.run?.exit?.exitCode !== 0)
      return [...result, record];
  }
  return [...result, ...main];
}

function planStart(view: PodView, record: ContainerRecord): readonly Due[] {
  if (isRunning(record) || isBusy(record)) return [];
  if (record.saved.run && hasEnded(record, view.pod.restartPolicy)) return [];
  if (!isFresh(record)) return [];
  return [afterPause(view, record.retryAtMs, { kind: "start", container: record.desired.name })];
}

/** Whether the image is available, and, with pull policy Always, the registry was asked for this attempt. */
function isFresh(record: ContainerRecord): boolean {
  const { image, desired } = record;
  if (image.kind !== "ready") return false;
  return desired.imagePullPolicy !== "Always" || image.attempt === nextAttempt(record);
}

function failedInit(record: ContainerRecord): boolean {
  const { exit } = record.saved.run ?? {};
  return record.kind === "init" && exit !== undefined && exit.exitCode !== 0;
}

function pull({ desired }: ContainerRecord): Step {
  return { kind: "pull", container: desired.name, image: desired.image };
}

function stop({ desired }: ContainerRecord, reason: StopReason, hasTurn = true): Step {
  const { message, restarts, graceSeconds } = reason;
  const own = graceSeconds === undefined ? undefined : { graceSeconds };
  return { kind: "stop", container: desired.name, message, restarts, hasTurn, ...own };
}

/** If the pause would be longer than any, the clock was set back, and the step is due at once. */
function afterPause({ nowMs }: PodView, atMs: number, step: Step): Due {
  return { step, atMs: atMs - nowMs > longestPauseMs ? 0 : atMs };
}

function now(step: Step): Due {
  return { step, atMs: 0 };
}
