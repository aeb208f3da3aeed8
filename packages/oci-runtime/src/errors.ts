import { CodedError, type CodedErrorOptions } from "@kip/base";

/** The codes of this package. */
export type RuntimeErrorCode =
  /** A container adds or drops a capability that Linux does not have. */
  | "CAPABILITY_UNKNOWN"
  /** crun could not create a container. The message contains crun's. */
  | "CONTAINER_CREATE_FAILED"
  /** There is no container with this ID. */
  | "CONTAINER_NOT_FOUND"
  /** The kernel refused the limits of a container or pod. */
  | "CONTAINER_RESIZE_FAILED"
  /** crun could not start a container that it had created. */
  | "CONTAINER_START_FAILED"
  /** A command could not be run in a container; see {@link RuntimeError.execFailure}. */
  | "EXEC_FAILED"
  /** A container's log does not exist. */
  | "LOG_NOT_FOUND"
  /** A pod's address or the machine's interface is unusable. */
  | "POD_NETWORK_INVALID"
  /** The namespaces or network of a pod could not be created. */
  | "POD_SANDBOX_FAILED";

/** Why a command could not be run in a container. */
export type ExecFailure = "not-found" | "not-executable" | "not-running" | "other";

/** Options of {@link RuntimeError}. */
interface RuntimeErrorOptions extends CodedErrorOptions {
  readonly execFailure?: ExecFailure | undefined;
}

/** A failure of the runtime or of a pod's sandbox. */
export class RuntimeError extends CodedError<RuntimeErrorCode> {
  override readonly name = "RuntimeError";
  /** Set with `EXEC_FAILED`. */
  readonly execFailure: ExecFailure | undefined;

  constructor(code: RuntimeErrorCode, message: string, options: RuntimeErrorOptions = {}) {
    super(code, message, options);
    this.execFailure = options.execFailure;
  }
}
