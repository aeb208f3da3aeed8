import { decode, type Decoded, type Decoder } from "@kip/base";
import { plain, rfc3339 } from "./plain-text.ts";

const { between, boolean, int32, integer, list, number, object, oneOf, optional, string } = decode;

/** The most containers of each kind that a report may have; a pod with more cannot be reported on. */
export const maxContainers = 1000;
/** Groups of a container's first process that are reported. */
const maxGroups = 1000;
/** Events that a report may have, of which the newest are decoded. */
export const maxEvents = 400;

/** As int32: with more than the API's objects can hold in it, a pod's status could not be written. */
const count = between(int32, 0, 2 ** 31 - 1);
const word = plain(128);
const reference = plain(1024);
/** As long as the kubelet lets a termination message be. */
const sentence = plain(4096);

/** The last entries of a list; those before them are not looked at. */
function newest<T>(count: number, entry: Decoder<T>): Decoder<readonly T[]> {
  const last = list(entry);
  return (value, path) => last(Array.isArray(value) ? value.slice(-count) : value, path);
}

const durationMs = optional(between(number, -1e10, 1e10));

/** As the API has them: with others a pod's status could not be written. */
const id = between(integer, 0, 2 ** 31 - 1);

const terminated = object({
  exitCode: int32,
  signal: optional(int32),
  /** Kubernetes' words: Completed, Error, OOMKilled, ContainerCannotRun, ... */
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

/** As a condition of the pod. */
const resize = object({
  reason: optional(word),
  message: optional(sentence),
  /** The generation of the pod's object that the cell had then. */
  podGeneration: optional(between(integer, 0, Number.MAX_SAFE_INTEGER)),
});

const containerReport = object({
  name: word,
  /** Exactly one of the three is set. */
  waiting: optional(object({ reason: word, message: optional(sentence) })),
  running: optional(object({ startedAt: rfc3339 })),
  terminated: optional(terminated),
  /** How the run before this one ended. */
  lastTerminated: optional(terminated),
  ready: boolean,
  started: boolean,
  restartCount: count,
  image: reference,
  /** `<repository>@sha256:...` of the image really used. */
  imageId: optional(reference),
  /** `crun://<id>`; the same for no other run of any container of any pod. */
  containerId: optional(reference),
  /** What the container is to have, and what its run was given; absent before the first. */
  allocated: optional(amounts),
  actuated: optional(amounts),
  /** The user of its first process. */
  user: optional(object({ uid: id, gid: id, groups: list(id, { max: maxGroups }) })),
  /** Signal that ends it. */
  stopSignal: optional(word),
});

const event = object({
  /** Counts up from 1 within one life of the pod; kip uses it to emit each event once. */
  sequence: between(integer, 0, Number.MAX_SAFE_INTEGER),
  type: oneOf("Normal", "Warning"),
  /** As the kubelet words them: Pulling, Pulled, Created, Started, Killing, BackOff, Failed, Unhealthy. */
  reason: word,
  message: sentence,
  /** Name of the container concerned, if one is. */
  container: optional(word),
  time: rfc3339,
});

/**
 * Decodes one line of the status stream. A cell may lie about its pod, but not so that the lie does harm
 * elsewhere: figures and times are such as the API takes, texts are short and can be shown.
 */
export const decodePodReport = object({
  podUid: string,
  /** The generation of the desired pod that this report reflects. */
  generation: integer,
  phase: oneOf("Pending", "Running", "Succeeded", "Failed"),
  /** Pod-level reason and message: `DeadlineExceeded`, `Evicted`, ... */
  reason: optional(word),
  message: optional(sentence),
  /** The cell ended the pod to protect itself, and not for a limit of the pod. Absent otherwise. */
  isDisruption: optional(boolean),
  startTime: rfc3339,
  /** Namespaces, network or volumes of the pod could not be made so far. Absent otherwise. */
  isUnprepared: optional(boolean),
  initContainers: list(containerReport, { max: maxContainers }),
  containers: list(containerReport, { max: maxContainers }),
  ephemeralContainers: list(containerReport, { max: maxContainers }),
  /** A resize that cannot be done, and one that has been begun. */
  resizePending: optional(resize),
  resizeInProgress: optional(resize),
  /** Events since the pod came to this cell, oldest first: the last 100, more of a pod of many containers. */
  events: newest(maxEvents, event),
  /** Durations of the start's phases in milliseconds, as far as they are known. */
  timingsMs: object({ pull: durationMs, unpack: durationMs, start: durationMs }),
  /** When the cloud takes the cell's machine back, as it has told the machine. Absent while it has not. */
  machineEndsAt: optional(rfc3339),
  /** The pod has ended and the cell has let go of all that it had: its disks can be unplugged. Absent until then. */
  isReleased: optional(boolean),
});

/**
 * State of the pod on a cell. The agent sends the whole of it whenever anything in it changed,
 * coalesced, as one JSON line; kip never asks in between.
 */
export type PodReport = Decoded<typeof decodePodReport>;
/** What stays true of a report until the next one: its events are news once. */
export type ReportedPod = Omit<PodReport, "events">;
export type ContainerReport = Decoded<typeof containerReport>;
export type ResizeReport = Decoded<typeof resize>;
export type TerminatedReport = Decoded<typeof terminated>;
export type PodEventReport = Decoded<typeof event>;
