import { CodedError, type CodedErrorOptions } from "@kip/base";

/** Failures between kip and the agent of a cell, and in the agent. Most are sent from the agent to kip. */
export type AgentErrorCode =
  /** A response of the agent is malformed or too large. */
  | "AGENT_ANSWER_INVALID"
  /** A bandwidth annotation of the pod is not valid. */
  | "AGENT_BANDWIDTH_INVALID"
  /** Clients of the cluster have as many streams to the cell as they may have. */
  | "AGENT_BUSY"
  /** The pod's settings contradict its image. */
  | "AGENT_CONTAINER_CONFIG"
  /** A container has no command, or the description of its devices cannot be applied. */
  | "AGENT_CONTAINER_INVALID"
  /** The container is not running. */
  | "AGENT_CONTAINER_NOT_RUNNING"
  /** The pod does not have this container, or it has not run yet. */
  | "AGENT_CONTAINER_UNKNOWN"
  /** A disk of the pod was not attached in time. */
  | "AGENT_DISK_ABSENT"
  /** The file system of a disk has faults that a program must not repair. */
  | "AGENT_DISK_DAMAGED"
  /** A disk contains something that the agent neither uses nor overwrites. */
  | "AGENT_DISK_REFUSED"
  /** A failure of the agent that has no code of its own. */
  | "AGENT_FAILED"
  /** The client is not kip. */
  | "AGENT_FORBIDDEN"
  /** A stream violates the framing. */
  | "AGENT_FRAME_INVALID"
  /** The peer is not the cell, or its certificate has expired. */
  | "AGENT_IDENTITY_INVALID"
  /** The shared image cache cannot be mounted. */
  | "AGENT_IMAGE_CACHE"
  /** The image of a container is not available, see {@link AgentError.imageProblem}. */
  | "AGENT_IMAGE_FAILED"
  /** The agent cannot open its port. */
  | "AGENT_LISTEN_FAILED"
  /** The call does not exist. */
  | "AGENT_NOT_FOUND"
  /** The rules for Services and policies could not be applied. */
  | "AGENT_NETWORK_FAILED"
  /** The cell has no pod. */
  | "AGENT_NO_POD"
  /** The cell has another pod. */
  | "AGENT_OTHER_POD"
  /** A subPath leads out of its volume. */
  | "AGENT_PATH_UNSAFE"
  /** Nothing in the pod listens at the port. */
  | "AGENT_PORT_REFUSED"
  /** A device that a container had is no longer available. */
  | "AGENT_DEVICE_GONE"
  /** A container's seccomp profile is not available. */
  | "AGENT_PROFILE_UNAVAILABLE"
  /** A command could not be run in a container, or its result is unknown. */
  | "AGENT_PROCESS_FAILED"
  /** The agent does not understand the request. */
  | "AGENT_REQUEST_INVALID"
  /** A body is larger than the agent accepts. */
  | "AGENT_REQUEST_TOO_LARGE"
  /** The agent does not respond, or the connection was lost. */
  | "AGENT_UNREACHABLE"
  /** A volume could not be created. */
  | "AGENT_VOLUME_FAILED"
  /** A volume's path or type does not match the existing file. */
  | "AGENT_VOLUME_INVALID"
  /** The pod that warms up a template has ended. */
  | "REHEARSAL_FAILED";

/** Why an image is not available, in the kubelet's words. */
export type ImageProblem = "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName";

/** Options of {@link AgentError}. */
interface AgentErrorOptions extends CodedErrorOptions {
  readonly imageProblem?: ImageProblem | undefined;
}

/** A failure of the agent, or of the connection to it. */
export class AgentError extends CodedError<AgentErrorCode> {
  override readonly name = "AgentError";
  /** Set if the code is `AGENT_IMAGE_FAILED`. */
  readonly imageProblem: ImageProblem | undefined;

  constructor(code: AgentErrorCode, message: string, options: AgentErrorOptions = {}) {
    super(code, message, options);
    this.imageProblem = options.imageProblem;
  }
}
