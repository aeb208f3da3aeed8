import {
  runsAgain,
  type ContainerReport,
  type DesiredContainer,
  type DesiredPod,
  type ResourceAmounts,
  type TerminatedReport,
} from "@kip/agent-api";
import type { StoredImage } from "@kip/oci-image";
import type { ContainerExit } from "@kip/oci-runtime";
import type { CrashBackoff } from "./crash-backoff.ts";

/**
 * init: runs to completion before the next one; sidecar: an init container that keeps running beside the main ones; ephemeral:
 * added to a running pod for debugging, and never restarted.
 */
export type ContainerKind = "init" | "sidecar" | "main" | "ephemeral";

/** One run of a container. The next attempt is another run. */
export interface ContainerRun {
  /** The runtime's ID. */
  readonly id: string;
  /** Counts up from 0. */
  readonly attempt: number;
  /** The image as named in the pod. */
  readonly image: string;
  readonly imageId: string;
  readonly stopSignal: string;
  /** The user of its first process. Absent until the container is created. */
  readonly user?: ContainerReport["user"];
  readonly logDirectory: string;
  /** The resources that it was last given. Absent in what older agents have saved. */
  readonly resources?: ResourceAmounts | undefined;
  /** Absent until its process has started. */
  readonly startedAtMs?: number | undefined;
  /** Set once it has ended. */
  readonly exit?: TerminatedReport | undefined;
  /** Whether it was stopped in order to be replaced by another run, whatever its exit code. */
  readonly restarts?: boolean | undefined;
}

/** The part of a container's state that outlives the agent. Plain JSON in a file on a tmpfs. */
export interface SavedContainer {
  readonly name: string;
  readonly run?: ContainerRun | undefined;
  readonly lastTerminated?: TerminatedReport | undefined;
  /** The log of the previous run. */
  readonly previousLogDirectory?: string | undefined;
  readonly started: boolean;
  readonly ready: boolean;
  /** Grows with every crash. */
  readonly backoff?: CrashBackoff | undefined;
}

/** The state of the container's image. Not kept when the agent restarts. */
export type ImageState =
  | { readonly kind: "unknown" }
  /** `failures`: number of consecutive failed pulls before. */
  | { readonly kind: "pulling"; readonly failures: number }
  /** `attempt`: the attempt of the container for which the registry was asked, with policy Always. */
  | {
      readonly kind: "ready";
      readonly image: StoredImage;
      /** Images that the container mounts, by volume name. */
      readonly volumes: ReadonlyMap<string, StoredImage>;
      readonly attempt: number;
    }
  | {
      readonly kind: "failed";
      /** The name of the container or of a volume. */
      readonly name: string;
      readonly reason: string;
      readonly message: string;
      readonly failures: number;
      readonly retryAtMs: number;
      /** When the container should show that it is held back. Absent if it already does, or if it should not. */
      readonly holdAtMs?: number | undefined;
    };

/** Why a container is stopped. */
export interface StopReason {
  /** Text of the Killing event. */
  readonly message: string;
  /** Whether another run follows, whatever the exit code. */
  readonly restarts: boolean;
  /** Replaces the pod's grace period, unless the pod is ending. */
  readonly graceSeconds?: number | undefined;
}

/** Why a container must be stopped after a failure. */
export type KillCause =
  /** A probe has failed. Its grace period, if any, replaces the pod's. */
  | {
      readonly kind: "probe";
      readonly probe: "liveness" | "startup";
      readonly graceSeconds?: number | undefined;
    }
  /** Its postStart hook has failed. The container then waits with this message. */
  | { readonly kind: "postStart"; readonly message: string };

/** A step of a container that is in progress. It gets no other step meanwhile. */
export type Activity = { readonly kind: "starting" } | ({ readonly kind: "stopping" } & StopReason);

/** A container of the pod: its desired state, its present state, and what is being done. */
export interface ContainerRecord {
  readonly desired: DesiredContainer;
  readonly kind: ContainerKind;
  readonly saved: SavedContainer;
  readonly image: ImageState;
  readonly activity?: Activity | undefined;
  /** How its run ended according to the runtime, until that is in `saved.run`. */
  readonly exited?: ContainerExit | undefined;
  /** Whether to probe it while it runs: it has started, and so has its postStart hook. */
  readonly isWatched: boolean;
  /** Why the container is not running, if something failed or holds it back. */
  readonly waiting?: { readonly reason: string; readonly message?: string } | undefined;
  /** Earliest next start, milliseconds since the Unix epoch. */
  readonly retryAtMs: number;
  /** Why a running container must be stopped. */
  readonly kill?: KillCause | undefined;
  /** Whether the last start failed before there was a container. It is retried soon, or at once for a newer pod. */
  readonly isCreateFailed: boolean;
}

/** Containers of a pod with their kinds, in the order in which they start. */
export function containersOf(
  pod: DesiredPod,
): readonly { readonly desired: DesiredContainer; readonly kind: ContainerKind }[] {
  return [
    ...pod.initContainers.map((desired) => ({
      desired,
      kind: desired.restartPolicy === "Always" ? ("sidecar" as const) : ("init" as const),
    })),
    ...pod.containers.map((desired) => ({ desired, kind: "main" as const })),
    ...(pod.ephemeralContainers ?? []).map((desired) => ({ desired, kind: "ephemeral" as const })),
  ];
}

/** The record of a container for which nothing has happened yet. */
export function newRecord(
  desired: DesiredContainer,
  kind: ContainerKind,
  saved?: SavedContainer,
): ContainerRecord {
  return {
    desired,
    kind,
    saved: saved ?? { name: desired.name, started: false, ready: false },
    image: { kind: "unknown" },
    isWatched: false,
    retryAtMs: 0,
    isCreateFailed: false,
  };
}

/** Whether the container's process is running. */
export function isRunning(record: ContainerRecord): boolean {
  const { run } = record.saved;
  return run?.startedAtMs !== undefined && run.exit === undefined;
}

/** Whether something is being done with the container, or its end is still to be recorded. No other step begins then. */
export function isBusy({ activity, exited }: ContainerRecord): boolean {
  return activity !== undefined || exited !== undefined;
}

/** Whether the run's process has started or failed to start. */
export function hasBegun(run: ContainerRun): boolean {
  return run.startedAtMs !== undefined || run.exit !== undefined;
}

/** Whether a run of the container has ever begun. As in a kubelet, one that could not be created has not run. */
export function hasRun({ saved: { run } }: Pick<ContainerRecord, "saved">): boolean {
  return run !== undefined && (hasBegun(run) || run.attempt > 0);
}

/** The attempt number of the next start. A start that was interrupted is repeated with the same number. */
export function nextAttempt(record: ContainerRecord): number {
  const { run } = record.saved;
  if (run === undefined) return 0;
  return hasBegun(run) ? run.attempt + 1 : run.attempt;
}

/** Whether the container has ended and its restart policy does not restart it. */
export function hasEnded(
  record: ContainerRecord,
  restartPolicy: DesiredPod["restartPolicy"],
): boolean {
  const { run } = record.saved;
  if (run === undefined) return false;
  // A run that never started says nothing about the container.
  if (run.exit === undefined || run.restarts === true) return false;
  return !startsAgain(record, restartPolicy, run.exit.exitCode);
}

/** Whether a container that ended by itself with this exit code is restarted. */
export function startsAgain(
  { kind, desired }: Pick<ContainerRecord, "kind" | "desired">,
  restartPolicy: DesiredPod["restartPolicy"],
  exitCode: number,
): boolean {
  if (kind === "sidecar") return true;
  const isOver = kind === "ephemeral" || (kind === "init" && exitCode === 0);
  return !isOver && runsAgain(desired, restartPolicy, exitCode);
}
