import { CodedError, type CodedErrorOptions } from "@kip/base";

/** Codes of {@link VirtualKubeletError}. docs/errors.md explains what to do about each. */
export type VirtualKubeletErrorCode =
  /** The provider does not have the pod, container or log. */
  | "VK_NOT_FOUND"
  /** The provider can never run this pod. The pod fails with the message. */
  | "VK_INVALID_POD"
  /** A ConfigMap, Secret, key or field that the pod needs is missing or unreadable. */
  | "VK_UNRESOLVED"
  /** Another replica may be running the node by now. The provider was not called. */
  | "VK_FENCED"
  /** An option of this package is invalid. */
  | "VK_OPTIONS_INVALID"
  /** The node was not registered in time. */
  | "VK_START_TIMEOUT"
  /** There is no provider with this name. */
  | "VK_PROVIDER_UNKNOWN"
  /** A provider's name is already registered, or the provider lacks mandatory calls. */
  | "VK_PROVIDER_INVALID"
  /** The kubelet API or the metrics server cannot listen on its port. */
  | "VK_LISTEN_FAILED"
  /** The certificate, key and client CA of the kubelet API do not match. */
  | "VK_TLS_INVALID"
  /** The API server does not allow the client to act as its node. */
  | "VK_NODE_USER_FORBIDDEN"
  /** The cluster refused to sign the kubelet API's certificate. */
  | "VK_CERTIFICATE_REFUSED"
  /** A client of exec, attach or port-forward violated the SPDY/3.1 protocol. */
  | "VK_SPDY_PROTOCOL"
  /** A client of exec, attach or port-forward closed a stream or disconnected. */
  | "VK_STREAM_RESET";

/** Options of {@link VirtualKubeletError}. */
export interface VirtualKubeletErrorOptions extends CodedErrorOptions {
  /** With `VK_INVALID_POD`: the pod's `status.reason`, in CamelCase. @default "ProviderRejected" */
  readonly reason?: string | undefined;
  /** With `VK_UNRESOLVED`: the container with the environment. @default a volume or the whole pod */
  readonly container?: string | undefined;
  /** With `VK_UNRESOLVED`: whether the object or key certainly does not exist. @default false */
  readonly isAbsent?: boolean | undefined;
}

/**
 * A failure of this package or of a provider.
 *
 * A provider throws `VK_NOT_FOUND` and `VK_INVALID_POD`, directly or as a `cause`. After any other error, the call is repeated
 * with a back-off, and the pod gets an event.
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
 * Finds an error with one of the codes in an error and its causes, up to a depth of five. Only checks the code, because a
 * provider may be installed with its own copy of this package.
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

/** An error with a code of this package, possibly of another copy's class. */
export type FoundError = Error & {
  readonly code: VirtualKubeletErrorCode;
  readonly reason?: unknown;
};
