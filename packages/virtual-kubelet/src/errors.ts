import { CodedError, type CodedErrorOptions } from "@kip/base";

/** Codes of {@link VirtualKubeletError}; docs/errors.md says what to do about each. */
export type VirtualKubeletErrorCode =
  /** A provider has no such pod, container or log. */
  | "VK_NOT_FOUND"
  /** A provider can never run this pod; the pod fails with the message. */
  | "VK_INVALID_POD"
  /** A ConfigMap, Secret, key or field that the pod needs is missing or cannot be read. */
  | "VK_UNRESOLVED"
  /** Another replica may run the node now; the provider was not called. */
  | "VK_FENCED"
  /** An option of this package cannot be used. */
  | "VK_OPTIONS_INVALID"
  /** The node was not registered in time. */
  | "VK_START_TIMEOUT"
  /** No provider has the name. */
  | "VK_PROVIDER_UNKNOWN"
  /** A provider's name is taken, or it lacks mandatory calls. */
  | "VK_PROVIDER_INVALID"
  /** The kubelet API or the metrics server cannot open its port. */
  | "VK_LISTEN_FAILED"
  /** Certificate, key and client CA of the kubelet API do not belong together. */
  | "VK_TLS_INVALID"
  /** The API server does not let the client act as its node. */
  | "VK_NODE_USER_FORBIDDEN"
  /** The cluster did not sign the kubelet API's certificate. */
  | "VK_CERTIFICATE_REFUSED"
  /** A client of exec, attach or port-forward broke the SPDY/3.1 protocol. */
  | "VK_SPDY_PROTOCOL"
  /** A client of exec, attach or port-forward closed a stream, or left. */
  | "VK_STREAM_RESET";

/** Options of {@link VirtualKubeletError}. */
export interface VirtualKubeletErrorOptions extends CodedErrorOptions {
  /** With `VK_INVALID_POD`: `status.reason` of the pod, in CamelCase. @default "ProviderRejected" */
  readonly reason?: string | undefined;
  /** With `VK_UNRESOLVED`: the container whose environment it is. @default a volume or the whole pod */
  readonly container?: string | undefined;
  /** With `VK_UNRESOLVED`: whether it is certain that there is no such object or key. @default false */
  readonly isAbsent?: boolean | undefined;
}

/**
 * A failure of this package, or of a provider towards it.
 *
 * A provider throws `VK_NOT_FOUND` and `VK_INVALID_POD`, itself or as a `cause`. Any other error that it throws
 * is repeated with a back-off and shown as an event of the pod.
 *
 * @example
 * ```ts
 * import { VirtualKubeletError } from "@kip/virtual-kubelet";
 *
 * const error: unknown = new VirtualKubeletError("VK_INVALID_POD", "Cannot run the pod: it wants a GPU", {
 *   reason: "NoGpu",
 * });
 * assert.ok(VirtualKubeletError.is(error, "VK_INVALID_POD")); // the compiler checks the code
 * assert.equal(error.reason, "NoGpu");
 * ```
 */
export class VirtualKubeletError extends CodedError<VirtualKubeletErrorCode> {
  override readonly name = "VirtualKubeletError";
  readonly reason: string | undefined;
  readonly container: string | undefined;
  readonly isAbsent: boolean;

  constructor(
    code: VirtualKubeletErrorCode,
    message: string,
    options: VirtualKubeletErrorOptions = {},
  ) {
    super(code, message, options);
    this.reason = options.reason;
    this.container = options.container;
    this.isAbsent = options.isAbsent ?? false;
  }
}

/**
 * Finds an error with one of the codes in an error and its causes, up to a depth of five. It goes by the code alone:
 * a provider may be installed with a copy of this package of its own.
 */
export function findError(
  error: unknown,
  ...codes: readonly VirtualKubeletErrorCode[]
): FoundError | undefined {
  let current = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    if (hasCode(current, codes)) return current;
    current = current.cause;
  }
  return undefined;
}

function hasCode(
  error: Error & { readonly code?: unknown },
  codes: readonly VirtualKubeletErrorCode[],
): error is FoundError {
  return codes.some((code) => code === error.code);
}

/** An error with a code of this package, maybe of another copy's class. */
export type FoundError = Error & {
  readonly code: VirtualKubeletErrorCode;
  readonly reason?: unknown;
};
