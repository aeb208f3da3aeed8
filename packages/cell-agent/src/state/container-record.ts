import type { ProbeKind } from "../checks/container-probes.ts";
import type { DesiredContainer, DesiredPod, TerminatedReport } from "@kip/agent-api";
import type { StoredImage } from "@kip/oci-image";

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
  readonly logPath: string;
  /** Absent until its process has begun. */
  readonly startedAtMs?: number;
  /** Set once it has ended. */
  readonly exit?: TerminatedReport;
  /** It was stopped to be followed by another run, whatever its exit code says. */
  readonly restarts?: boolean;
}

/** The part of a container's state that outlives the agent. Plain JSON, in a file on a tmpfs. */
export interface SavedContainer {
  readonly name: string;
  run?: ContainerRun;
  lastTerminated?: TerminatedReport;
  /** The log of the run before the present one. */
  previousLogPath?: string;
  started: boolean;
  ready: boolean;
  /** Grows with every crash, see crash-backoff.ts. */
  backoff?: { readonly delayMs: number; readonly updatedAtMs: number };
}

/** What is known about the container's image; not kept across restarts of the agent. */
export type ImageState =
  | { readonly kind: "unknown" }
  | { readonly kind: "pulling" }
  /** `attempt`: for which attempt of the container the registry was asked, with policy Always. */
  | { readonly kind: "ready"; readonly image: StoredImage; readonly attempt: number }
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly message: string;
      readonly failures: number;
      readonly retryAtMs: number;
      /** When the container is to show that it is held back; absent if it does or need not. */
      readonly holdAtMs?: number;
    };

/** A container of the pod: what is wanted, what is there, what is being done. */
export interface ContainerRecord {
  desired: DesiredContainer;
  readonly kind: ContainerKind;
  readonly saved: SavedContainer;
  image: ImageState;
  /** A step that is under way; the plan leaves the container alone meanwhile. */
  activity?: "starting" | "stopping";
  /** Why the container does not run, if something failed or holds it back. */
  waiting?: { readonly reason: string; readonly message?: string };
  /** Not to be started before. */
  retryAtMs: number;
  /** Why a running container must be stopped: the text of the Killing event, and its own grace period if it has one. */
  kill?: { readonly message: string; readonly graceSeconds?: number | undefined };
  /** Failed attempts to create the container since the last that went well. */
  createFailures: number;
  /** How probes went since the agent has begun. */
  readonly probes: Map<ProbeKind, { successful: number; failed: number }>;
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
    retryAtMs: 0,
    probes: new Map(),
    createFailures: 0,
  };
}

/** Whether the container's process is there. */
export function isRunning(record: ContainerRecord): boolean {
  const { run } = record.saved;
  return run?.startedAtMs !== undefined && run.exit === undefined;
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
