import {
  maxMessageLength,
  type ContainerReport,
  type DesiredPod,
  type PodEventReport,
  type PodReport,
  type TerminatedReport,
} from "@kip/agent-api";
import { defined, ownValue } from "@kip/base";
import { actuated, type Allocation } from "./allocation.ts";
import { shownId } from "./run-id.ts";
import {
  hasBegun,
  isRunning,
  type ContainerRecord,
  type ContainerRun,
} from "./container-record.ts";
import { podPhase } from "./phase.ts";

/** Input of the report. */
export interface ReportView {
  readonly pod: DesiredPod;
  readonly containers: readonly ContainerRecord[];
  readonly events: readonly PodEventReport[];
  readonly startTimeMs: number;
  /** Whether the pod should end, whatever its restart policy. */
  readonly isEnding: boolean;
  readonly reason?: string;
  readonly message?: string;
  readonly isDisruption?: boolean | undefined;
  readonly timingsMs: Readonly<Record<string, number>>;
  /** When the cloud will reclaim the machine, RFC 3339. */
  readonly machineEndsAt?: string | undefined;
  /** Whether namespaces, network or volumes could not be created so far. */
  readonly isUnprepared: boolean;
  /** Whether the pod has ended and all of its resources are released. */
  readonly isReleased: boolean;
  readonly allocation: Allocation;
}

/** Creates the report for kip. Pure. */
export function podReport(view: ReportView): PodReport {
  const { pod, containers } = view;
  const computed = podPhase(pod.restartPolicy, containers, view.isEnding);
  // A pod that is ended for a reason has failed, even if its containers exited with 0.
  const phase = computed === "Succeeded" && view.reason !== undefined ? "Failed" : computed;
  const reason = pod.initContainers.length > 0 ? "PodInitializing" : "ContainerCreating";
  const context = {
    podUid: pod.uid,
    allocation: view.allocation,
    waiting: { reason },
    messageLength: maxMessageLength(containers.length),
  };
  const part = (...kinds: readonly string[]): ContainerReport[] =>
    containers
      .filter((record) => kinds.includes(record.kind))
      .map((record) => containerReport(record, context));
  return defined({
    podUid: pod.uid,
    generation: pod.generation,
    phase,
    reason: view.reason,
    message: view.message,
    isDisruption: view.isDisruption,
    startTime: seconds(view.startTimeMs),
    isUnprepared: view.isUnprepared ? true : undefined,
    initContainers: part("init", "sidecar"),
    containers: part("main"),
    ephemeralContainers: part("ephemeral"),
    resizePending: view.allocation.pending,
    resizeInProgress: view.allocation.inProgress,
    events: view.events,
    timingsMs: view.timingsMs,
    machineEndsAt: view.machineEndsAt,
    isReleased: view.isReleased ? true : undefined,
  });
}

interface ReportContext {
  readonly podUid: string;
  readonly allocation: Allocation;
  /** For a container without its own reason to wait. */
  readonly waiting: { readonly reason: string };
  /** Maximum length of a termination message, characters. */
  readonly messageLength: number;
}

function containerReport(record: ContainerRecord, context: ReportContext): ContainerReport {
  const { saved, desired, kind } = record;
  const { run } = saved;
  const running = isRunning(record);
  const allocated = run && ownValue(context.allocation.containers, desired.name);
  const attempt = lastAttempt(run);
  // An init container is ready when it has completed. As in a kubelet, a debugging one is never ready.
  const isReady =
    kind === "init" ? run?.exit?.exitCode === 0 : running && saved.ready && kind !== "ephemeral";
  return defined({
    name: desired.name,
    ...containerState(record, context),
    ready: isReady,
    started: running && saved.started,
    restartCount: attempt ?? 0,
    image: desired.image,
    imageId: run?.imageId,
    containerId: attempt === undefined ? undefined : shownId(context.podUid, desired.name, attempt),
    allocated,
    // A container that is not running gets its allocation at its start.
    actuated: running ? actuated(record, context.allocation) : allocated,
    user: run?.user,
    stopSignal: run?.stopSignal,
  });
}

/** The last attempt that started. As in a kubelet, a restart that is still being prepared does not count. */
function lastAttempt(run: ContainerRun | undefined): number | undefined {
  if (!run || hasBegun(run)) return run?.attempt;
  return run.attempt > 0 ? run.attempt - 1 : undefined;
}

type StateReport = Pick<ContainerReport, "waiting" | "running" | "terminated" | "lastTerminated">;

function containerState(
  record: ContainerRecord,
  { waiting: defaultWaiting, messageLength }: ReportContext,
): StateReport {
  const { run, lastTerminated } = record.saved;
  // As in a kubelet, a container whose next run is being created shows how the one before ended.
  const ends = run && !hasBegun(run) ? [lastTerminated] : [run?.exit, lastTerminated];
  const [exit, before] = ends.map((one) => one && shortened(one, messageLength));
  const last = before && { lastTerminated: before };
  if (run && isRunning(record))
    return { running: { startedAt: seconds(run.startedAtMs ?? 0) }, ...last };
  if (exit && !record.waiting) return { terminated: exit, ...last };
  // A run that ended and is to be followed by another one is the last run, not the present one.
  const waiting = record.waiting ?? defaultWaiting;
  return { waiting, ...(exit ? { lastTerminated: exit } : last) };
}

function shortened(exit: TerminatedReport, messageLength: number): TerminatedReport {
  return exit.message === undefined
    ? exit
    : { ...exit, message: exit.message.slice(0, messageLength) };
}

/** RFC 3339 in whole seconds, as in the kubelet. */
export function seconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
