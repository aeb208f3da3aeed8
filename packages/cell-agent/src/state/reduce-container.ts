import {
  isRunning,
  type ContainerRecord,
  type ContainerRun,
  type KillCause,
  type SavedContainer,
} from "./container-record.ts";
import type { ContainerChange } from "./pod-change.ts";
import { reduceImage } from "./reduce-image.ts";

/** The kubelet's pause after it could not sync a pod, milliseconds. */
const createAgainMs = 10_000;

/** Applies a change to a container. */
export function reduceContainer(record: ContainerRecord, change: ContainerChange): ContainerRecord {
  const { saved } = record;
  switch (change.kind) {
    case "pullBegun":
    case "imageReady":
    case "imageFailed":
    case "held":
      return reduceImage(record, change);
    case "runBegun":
      return {
        ...record,
        saved: withRun(saved, change.run),
        activity: { kind: "starting" },
        isWatched: false,
        isCreateFailed: false,
        kill: undefined,
      };
    case "created":
      return { ...record, saved: { ...saved, run: { ...change.run, ...saved.run } } };
    case "started": {
      const run = { startedAtMs: change.startedAtMs, ...saved.run, ...change.run };
      const next = { ...record, saved: { ...saved, run } };
      // A process that ended at once has already set why it is waiting.
      return isRunning(next) ? { ...next, waiting: undefined } : next;
    }
    case "resized":
      return { ...record, saved: withResources(saved, change) };
    case "createFailed": {
      const waiting = { reason: change.reason, message: change.message };
      const retryAtMs = change.nowMs + createAgainMs;
      return { ...record, isCreateFailed: true, retryAtMs, waiting };
    }
    case "startOver": {
      const isWatched = change.isWatched && isRunning(record);
      return { ...record, activity: undefined, isWatched };
    }
    case "stopBegun": {
      const { message, restarts, graceSeconds } = change;
      const run = saved.run && { ...saved.run, restarts };
      const activity = { kind: "stopping", message, restarts, graceSeconds } as const;
      return { ...record, saved: { ...saved, run }, activity };
    }
    case "stopOver":
      return { ...record, activity: undefined };
    case "startupPassed":
      return saved.started ? record : { ...record, saved: { ...saved, started: true } };
    case "readiness":
      if (saved.ready === change.isReady) return record;
      return { ...record, saved: { ...saved, ready: change.isReady } };
    default:
      return withKill(record, change.cause);
  }
}

/** As in a kubelet, a container whose postStart hook has failed waits with that reason after it has ended. */
function withKill(record: ContainerRecord, kill: KillCause): ContainerRecord {
  if (kill.kind !== "postStart") return { ...record, kill };
  return { ...record, kill, waiting: { reason: "PostStartHookError", message: kill.message } };
}

/**
 * Applies a newer pod to the container. With another image it is another program, so what is known of the old one does not
 * count. As in a kubelet, earlier ends also do not count after a change of resources.
 */
export function withDesired(
  record: ContainerRecord,
  desired: ContainerRecord["desired"],
  { isResized }: { readonly isResized: boolean },
): ContainerRecord {
  const isSameImage = record.desired.image === desired.image;
  if (isSameImage && !isResized) {
    const retryAtMs = record.isCreateFailed ? 0 : record.retryAtMs;
    return { ...record, desired, retryAtMs };
  }
  const saved = { ...record.saved, backoff: undefined };
  const image = isSameImage ? record.image : ({ kind: "unknown" } as const);
  return { ...record, desired, saved, image, retryAtMs: 0 };
}

function withResources(
  saved: SavedContainer,
  { runId, resources }: Extract<ContainerChange, { kind: "resized" }>,
): SavedContainer {
  if (saved.run?.id !== runId) return saved;
  return { ...saved, run: { ...saved.run, resources } };
}

/** A new run. The one before becomes the last one if it has ended. */
function withRun(saved: SavedContainer, run: ContainerRun): SavedContainer {
  const before = saved.run;
  const next = { ...saved, run, started: false, ready: false };
  if (!before?.exit) return next;
  return { ...next, lastTerminated: before.exit, previousLogDirectory: before.logDirectory };
}
