import { decode, type Decoded } from "@kip/base";

const { boolean, integer, list, map, number, object, oneOf, optional, string } = decode;

const terminated = object({
  exitCode: integer,
  signal: optional(integer),
  /** Kubernetes' words: Completed, Error, OOMKilled, ContainerCannotRun, ... */
  reason: string,
  message: optional(string),
  /** RFC 3339 with seconds. */
  startedAt: optional(string),
  finishedAt: string,
  containerId: optional(string),
});

const containerReport = object({
  name: string,
  /** Exactly one of the three is set. */
  waiting: optional(object({ reason: string, message: optional(string) })),
  running: optional(object({ startedAt: string })),
  terminated: optional(terminated),
  /** How the run before this one ended. */
  lastTerminated: optional(terminated),
  ready: boolean,
  started: boolean,
  restartCount: integer,
  image: string,
  /** `<repository>@sha256:...` of the image really used. */
  imageId: optional(string),
  /** `crun://<id>`; the same for no other run of any container of any pod. */
  containerId: optional(string),
});

const event = object({
  /** Counts up from 1 within one life of the pod; kip uses it to emit each event once. */
  sequence: integer,
  type: oneOf("Normal", "Warning"),
  /** As the kubelet words them: Pulling, Pulled, Created, Started, Killing, BackOff, Failed, Unhealthy. */
  reason: string,
  message: string,
  /** Name of the container concerned, if one is. */
  container: optional(string),
  time: string,
});

/** Decodes one line of the status stream. */
export const decodePodReport = object({
  podUid: string,
  /** The generation of the desired pod that this report reflects. */
  generation: integer,
  phase: oneOf("Pending", "Running", "Succeeded", "Failed"),
  /** Pod-level reason and message: `DeadlineExceeded`, `Evicted`, ... */
  reason: optional(string),
  message: optional(string),
  startTime: string,
  initContainers: list(containerReport),
  containers: list(containerReport),
  ephemeralContainers: list(containerReport),
  /** Events since the pod came to this cell, oldest first, the last 100. */
  events: list(event),
  /** Durations of the start's phases in milliseconds, as far as they are known: pull, unpack, start. */
  timingsMs: map(number),
  /** The pod has ended and the cell has let go of all that it had: its disks can be unplugged. Absent until then. */
  isReleased: optional(boolean),
});

/**
 * State of the pod on a cell. The agent sends the whole of it whenever anything in it changed,
 * coalesced, as one JSON line; kip never asks in between.
 */
export type PodReport = Decoded<typeof decodePodReport>;
export type ContainerReport = Decoded<typeof containerReport>;
export type TerminatedReport = Decoded<typeof terminated>;
export type PodEventReport = Decoded<typeof event>;
