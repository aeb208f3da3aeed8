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
 * init: runs to its end before the next; sidecar: an init container that goes on running beside the
 * main ones; ephemeral: added to a running pod for debugging, never restarted.
 */
export type ContainerKind = "init" | "sidecar" | "main" | "ephemeral";

/** One run of a container; the next attempt is another run. */
export interface ContainerRun {
  /** ID at the runtime. */
  readonly id: string;
  /** Counts up from 0. */
  readonly attempt: number;
  /** The image as the pod names it. */
  readonly image: string;
  readonly imageId: string;
  readonly stopSignal: string;
  /** The user of its first process; absent until the container is made. */
  readonly user?: ContainerReport["user"];
  readonly logDirectory: string;
  /** What it was given of the cell last; absent in what older agents have saved. */
  readonly resources?: ResourceAmounts | undefined;
  /** Absent until its process has begun. */
  readonly startedAtMs?: number | undefined;
  /** Set once it has ended. */
  readonly exit?: TerminatedReport | undefined;
  /** It was stopped to be followed by another run, whatever its exit code says. */
  readonly restarts?: boolean | undefined;
}

/** The part of a container's state that outlives the agent. Plain JSON, in a file on a tmpfs. */
export interface SavedContainer {
  readonly name: string;
  readonly run?: ContainerRun | undefined;
  readonly lastTerminated?: TerminatedReport | undefined;
  /** The log of the run before the present one. */
  readonly previousLogDirectory?: string | undefined;
  readonly started: boolean;
  readonly ready: boolean;
  /** Grows with every crash. */
  readonly backoff?: CrashBackoff | undefined;
}

/** What is known about the container's image; not kept across restarts of the agent. */
export type ImageState =
  | { readonly kind: "unknown" }
  /** `failures`: of the pulls before, in a row. */
  | { readonly kind: "pulling"; readonly failures: number }
  /** `attempt`: for which attempt of the container the registry was asked, with policy Always. */
  | {
      readonly kind: "ready";
      readonly image: StoredImage;
      /** Images that the container mounts, by the volume's name. */
      readonly volumes: ReadonlyMap<string, StoredImage>;
      readonly attempt: number;
    }
  | {
      readonly kind: "failed";
      /** Its name: the container's, or that of a volume. */
      readonly name: string;
      readonly reason: string;
      readonly message: string;
      readonly failures: number;
      readonly retryAtMs: number;
      /** When the container is to show that it is held back; absent if it does or need not. */
      readonly holdAtMs?: number | undefined;
    };

/** Why a container is stopped. */
export interface StopReason {
  /** Text of the Killing event. */
  readonly message: string;
  /** Another run follows, whatever exit code this one ends with. */
  readonly restarts: boolean;
  /** In place of the pod's grace period, unless the pod is ending. */
  readonly graceSeconds?: number | undefined;
}

/** What has gone wrong with a container so that it must be stopped. */
export type KillCause =
  /** A probe has failed; its grace period counts in place of the pod's if it has one. */
  | {
      readonly kind: "probe";
      readonly probe: "liveness" | "startup";
      readonly graceSeconds?: number | undefined;
    }
  /** Its postStart hook has failed, for the reason that the container waits with then. */
  | { readonly kind: "postStart"; readonly message: string };

/** A step of a container that is under way; it gets no other one meanwhile. */
export type Activity = { readonly kind: "starting" } | ({ readonly kind: "stopping" } & StopReason);

/** A container of the pod: what is wanted, what is there, what is being done. */
export interface ContainerRecord {
  readonly desired: DesiredContainer;
  readonly kind: ContainerKind;
  readonly saved: SavedContainer;
  readonly image: ImageState;
  readonly activity?: Activity | undefined;
  /** How its run ended, as the runtime tells it, until that is in `saved.run`. */
  readonly exited?: ContainerExit | undefined;
  /** It is to be probed as long as it runs: it has started, and its postStart hook too. */
  readonly isWatched: boolean;
  /** Why the container does not run, if something failed or holds it back. */
  readonly waiting?: { readonly reason: string; readonly message?: string } | undefined;
  /** Not to be started before, milliseconds since the epoch. */
  readonly retryAtMs: number;
  /** Why a running container must be stopped. */
  readonly kill?: KillCause | undefined;
  /** The last start has failed before there was a container: it is tried again soon, and with a newer pod at once. */
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

/** A container of which nothing has happened yet. */
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

/** Whether the container's process is there. */
export function isRunning(record: ContainerRecord): boolean {
  const { run } = record.saved;
  return run?.startedAtMs !== undefined && run.exit === undefined;
}

/** Whether something is being done with the container, or its end is still to be noted: no other step begins. */
export function isBusy({ activity, exited }: ContainerRecord): boolean {
  return activity !== undefined || exited !== undefined;
}

/** Whether the run's process has ever begun, or could not. */
export function hasBegun(run: ContainerRun): boolean {
  return run.startedAtMs !== undefined || run.exit !== undefined;
}

/** The attempt that a start now would be; one that was cut off before its start is made again. */
export function nextAttempt(record: ContainerRecord): number {
  const { run } = record.saved;
  if (run === undefined) return 0;
  return hasBegun(run) ? run.attempt + 1 : run.attempt;
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
  return !startsAgain(record, restartPolicy, run.exit.exitCode);
}

/** Whether a container runs again that has ended by itself with this exit code. */
export function startsAgain(
  { kind, desired }: Pick<ContainerRecord, "kind" | "desired">,
  restartPolicy: DesiredPod["restartPolicy"],
  exitCode: number,
): boolean {
  if (kind === "sidecar") return true;
  const isOver = kind === "ephemeral" || (kind === "init" && exitCode === 0);
  return !isOver && runsAgain(desired, restartPolicy, exitCode);
}
