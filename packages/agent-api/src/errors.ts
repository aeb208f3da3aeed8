import { CodedError, type CodedErrorOptions } from "@kip/base";

/** What can go wrong between kip and the agent of a cell, and in the agent. Most travel from the one to the other. */
export type AgentErrorCode =
  /** An answer of the agent is malformed or too large. */
  | "AGENT_ANSWER_INVALID"
  /** An annotation about the pod's bandwidth has no valid value. */
  | "AGENT_BANDWIDTH_INVALID"
  /** What a pod asks for does not go with its image. */
  | "AGENT_CONTAINER_CONFIG"
  /** The container does not run now. */
  | "AGENT_CONTAINER_NOT_RUNNING"
  /** The pod has no such container, or it has not run yet. */
  | "AGENT_CONTAINER_UNKNOWN"
  /** A disk of the pod was not plugged in in time. */
  | "AGENT_DISK_ABSENT"
  /** The file system of a disk has faults that are not for a program to decide on. */
  | "AGENT_DISK_DAMAGED"
  /** A disk holds something that the agent does not use or overwrite. */
  | "AGENT_DISK_REFUSED"
  /** The agent failed at something that has no code. */
  | "AGENT_FAILED"
  /** Another client than kip asked. */
  | "AGENT_FORBIDDEN"
  /** A stream broke its framing. */
  | "AGENT_FRAME_INVALID"
  /** What answered is not the cell, or its certificate has expired. */
  | "AGENT_IDENTITY_INVALID"
  /** The shared image cache cannot be mounted. */
  | "AGENT_IMAGE_CACHE"
  /** The image of a container cannot be had; see {@link AgentError.imageProblem}. */
  | "AGENT_IMAGE_FAILED"
  /** The agent cannot open its port. */
  | "AGENT_LISTEN_FAILED"
  /** There is no such call. */
  | "AGENT_NOT_FOUND"
  /** The rules of Services and policies could not be put in force. */
  | "AGENT_NETWORK_FAILED"
  /** The cell has no pod. */
  | "AGENT_NO_POD"
  /** The cell has another pod. */
  | "AGENT_OTHER_POD"
  /** A subPath leads out of its volume. */
  | "AGENT_PATH_UNSAFE"
  /** Nothing in the pod listens on the port. */
  | "AGENT_PORT_REFUSED"
  /** A container cannot have a device again that it had. */
  | "AGENT_DEVICE_GONE"
  /** A container's profile of system calls cannot be had. */
  | "AGENT_PROFILE_UNAVAILABLE"
  /** A command could not be run in a container, or its end was not seen. */
  | "AGENT_PROCESS_FAILED"
  /** The agent does not understand what it was asked. */
  | "AGENT_REQUEST_INVALID"
  /** A body is larger than the agent takes. */
  | "AGENT_REQUEST_TOO_LARGE"
  /** The agent does not answer, or the connection was lost. */
  | "AGENT_UNREACHABLE"
  /** A volume could not be made. */
  | "AGENT_VOLUME_FAILED"
  /** A volume's path or type does not fit what is there. */
  | "AGENT_VOLUME_INVALID"
  /** The pod that warms up a template came to an end. */
  | "REHEARSAL_FAILED";

/** Why an image cannot be had, as the kubelet spells it. */
export type ImageProblem = "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName";

/** Options of {@link AgentError}. */
interface AgentErrorOptions extends CodedErrorOptions {
  readonly imageProblem?: ImageProblem | undefined;
}

/** A failure of the agent, or of reaching it. */
export class AgentError extends CodedError<AgentErrorCode> {
  override readonly name = "AgentError";
  /** Set with `AGENT_IMAGE_FAILED`. */
  readonly imageProblem: ImageProblem | undefined;

  constructor(code: AgentErrorCode, message: string, options: AgentErrorOptions = {}) {
    super(code, message, options);
    this.imageProblem = options.imageProblem;
  }
}
