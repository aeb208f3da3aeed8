import { decode, type Decoded, type Decoder } from "@kip/base";
import { plain, rfc3339 } from "./plain-text.ts";

const { between, boolean, int32, integer, list, number, object, oneOf, optional, string } = decode;

/** Maximum number of containers of each kind in a report. Pods with more cannot be reported. */
export const maxContainers = 1000;
/** Maximum number of groups of a container's first process in a report. */
const maxGroups = 1000;
/** Maximum number of events in a report. Only the newest are decoded. */
export const maxEvents = 400;

/** An int32, as in the API. With a larger number, a pod's status could not be written. */
const count = between(int32, 0, 2 ** 31 - 1);
const word = plain(128);
const reference = plain(1024);
/** The kubelet's limit for a termination message. */
const sentence = plain(4096);

/** Decodes the last entries of a list, and ignores those before. */
function newest<T>(count: number, entry: Decoder<T>): Decoder<readonly T[]> {
  const last = list(entry);
  return (value, path) => last(Array.isArray(value) ? value.slice(-count) : value, path);
}

const durationMs = optional(between(number, -1e10, 1e10));

/** The API's range. With other values, a pod's status could not be written. */
const id = between(integer, 0, 2 ** 31 - 1);

const terminated = object({
  exitCode: int32,
  signal: optional(int32),
  /** Kubernetes' reasons: Completed, Error, OOMKilled, ContainerCannotRun, ... */
  reason: word,
  message: optional(sentence),
  /** RFC 3339 with seconds. */
  startedAt: optional(rfc3339),
  finishedAt: rfc3339,
  containerId: optional(reference),
});

const amount = optional(between(integer, 0, Number.MAX_SAFE_INTEGER));
const amounts = object({
  cpuMilliLimit: amount,
  cpuMilliRequest: amount,
  memoryBytesLimit: amount,
  memoryBytesRequest: amount,
});

/** In the form of a pod condition. */
const resize = object({
  reason: optional(word),
  message: optional(sentence),
  /** The generation of the pod's object that the cell had at that time. */
  podGeneration: optional(between(integer, 0, Number.MAX_SAFE_INTEGER)),
});

const containerReport = object({
  name: word,
  /** Exactly one of the three is set. */
  waiting: optional(object({ reason: word, message: optional(sentence) })),
  running: optional(object({ startedAt: rfc3339 })),
  terminated: optional(terminated),
  /** How the previous run ended. */
  lastTerminated: optional(terminated),
  ready: boolean,
  started: boolean,
  restartCount: count,
  image: reference,
  /** `<repository>@sha256:...` of the image that is used. */
  imageId: optional(reference),
  /** `crun://<id>`. Unique for each run of each container. */
  containerId: optional(reference),
  /** Resources that the container should have, and those that its run got. Absent before the first run. */
  allocated: optional(amounts),
  actuated: optional(amounts),
  /** The user of its first process. */
  user: optional(object({ uid: id, gid: id, groups: list(id, { max: maxGroups }) })),
  /** The signal that stops it. */
  stopSignal: optional(word),
});

const event = object({
  /** Counts from 1 for each pod on a cell. Kip uses it to emit each event once. */
  sequence: between(integer, 0, Number.MAX_SAFE_INTEGER),
  type: oneOf("Normal", "Warning"),
  /** The kubelet's reasons: Pulling, Pulled, Created, Started, Killing, BackOff, Failed, Unhealthy. */
  reason: word,
  message: sentence,
  /** Name of the container, if the event is about one. */
  container: optional(word),
  time: rfc3339,
});

/**
 * Decodes one line of the status stream. A cell may lie about its pod, but a lie must not do harm elsewhere. So numbers and
 * times must be valid in the API, and texts must be short and printable.
 */
export const decodePodReport = object({
  podUid: string,
  /** The generation of the desired pod that this report reflects. */
  generation: integer,
  phase: oneOf("Pending", "Running", "Succeeded", "Failed"),
  /** Pod-level reason and message: `DeadlineExceeded`, `Evicted`, ... */
  reason: optional(word),
  message: optional(sentence),
  /** Whether the cell ended the pod to protect itself, and not because of a limit of the pod. Absent otherwise. */
  isDisruption: optional(boolean),
  startTime: rfc3339,
  /** Whether the pod's namespaces, network or volumes could not be created so far. Absent otherwise. */
  isUnprepared: optional(boolean),
  initContainers: list(containerReport, { max: maxContainers }),
  containers: list(containerReport, { max: maxContainers }),
  ephemeralContainers: list(containerReport, { max: maxContainers }),
  /** A resize that is not possible, and one that has begun. */
  resizePending: optional(resize),
  resizeInProgress: optional(resize),
  /** Events since the pod came to this cell, the oldest first. Only the last 100, or more if the pod has many containers. */
  events: newest(maxEvents, event),
  /** Durations of the start's phases in milliseconds, as far as known. */
  timingsMs: object({ pull: durationMs, unpack: durationMs, start: durationMs }),
  /** When the cloud will reclaim the cell's machine, if it has announced that to the machine. Absent otherwise. */
  machineEndsAt: optional(rfc3339),
  /**
   * Whether the pod has ended and the cell has released all of its resources, so that its disks can be detached. Absent until
   * then.
   */
  isReleased: optional(boolean),
});

/**
 * State of the pod on a cell. The agent sends all of it as one JSON line whenever something has changed, and combines changes
 * in quick succession. Kip never polls.
 */
export type PodReport = Decoded<typeof decodePodReport>;
/** The part of a report that stays valid until the next one. Its events only count once. */
export type ReportedPod = Omit<PodReport, "events">;
export type ContainerReport = Decoded<typeof containerReport>;
export type ResizeReport = Decoded<typeof resize>;
export type TerminatedReport = Decoded<typeof terminated>;
export type PodEventReport = Decoded<typeof event>;
