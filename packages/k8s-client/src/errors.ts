import { CodedError, type CodedErrorOptions } from "@kip/base";
import type { Status } from "@kip/k8s-types";

/** The codes of this package. Codes of responses follow the HTTP code and `Status.reason`: see {@link ApiClient}. */
export type K8sErrorCode =
  /** 409 AlreadyExists: the object to create already exists. */
  | "K8S_ALREADY_EXISTS"
  /** 409: the object was changed in the meantime, or it is not the expected one. */
  | "K8S_CONFLICT"
  /** A credential plugin, a token file or a token renewal provided no credential. */
  | "K8S_CREDENTIALS_FAILED"
  /** 403: RBAC, a quota or an admission rule forbids the request. */
  | "K8S_FORBIDDEN"
  /** 410: the requested version is no longer available. */
  | "K8S_GONE"
  /** 400, 422: the server rejects the object. Also for an invalid object name. */
  | "K8S_INVALID"
  /** Another process took the Lease, or this process could not renew it in time. */
  | "K8S_LEASE_LOST"
  /** 404: the object does not exist. */
  | "K8S_NOT_FOUND"
  /** Another status from 300 to 499. */
  | "K8S_REQUEST_FAILED"
  /** 429: the server is overloaded or limits this identity. */
  | "K8S_TOO_MANY_REQUESTS"
  /** 401: the server does not accept the credentials. */
  | "K8S_UNAUTHORIZED"
  /** 5xx, or no complete response in Kubernetes' format. */
  | "K8S_UNAVAILABLE"
  /** There is no kubeconfig, or it does not describe a cluster and a user. */
  | "KUBECONFIG_INVALID";

/** Options of {@link K8sError}. */
export interface K8sErrorOptions extends CodedErrorOptions {
  readonly httpStatus?: number | undefined;
  readonly status?: Status | undefined;
}

/** An API server was unreachable or refused a request. */
export class K8sError extends CodedError<K8sErrorCode> {
  override readonly name = "K8sError";
  /** HTTP code of the response. Undefined if there was none. */
  readonly httpStatus: number | undefined;
  /** The `Status` document of the response, if it had one. */
  readonly status: Status | undefined;

  constructor(code: K8sErrorCode, message: string, options: K8sErrorOptions = {}) {
    super(code, message, options);
    this.httpStatus = options.httpStatus;
    this.status = options.status;
  }
}

/** Whether the object does not exist on the API server. */
export function isNotFound(error: unknown): error is K8sError {
  return K8sError.is(error, "K8S_NOT_FOUND");
}

/** Whether the object to create already exists. */
export function isAlreadyExists(error: unknown): error is K8sError {
  return K8sError.is(error, "K8S_ALREADY_EXISTS");
}

/** Whether an object was changed in the meantime, or is not the expected one. */
export function isConflict(error: unknown): error is K8sError {
  return K8sError.is(error, "K8S_CONFLICT");
}

/** The result of a request, or undefined if its object does not exist. Other failures are thrown. */
export async function ignoreNotFound<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
