import type { Status } from "@kip/k8s-types";
import { K8sError } from "../errors.ts";

/** Description of a failed request, for messages. */
export interface FailedRequest {
  readonly method: string;
  readonly path: string;
}

/** A response of 400 or more. */
export interface FailedAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

/** Longest pause that a server can ask for. A proxy's mistake must not stop a watch for a day. */
const longestRetryAfterMs = 10 * 60_000;

/**
 * The error for a response of 400 or more. HTTP code and `Status.reason` determine the code: 409 means "already exists" for a
 * creation, and a conflict for other requests.
 *
 * @see https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go StatusReason
 */
export function statusError(request: FailedRequest, answer: FailedAnswer): K8sError {
  const status = readStatus(answer.body);
  const text = status?.message ?? (answer.body.slice(0, 200).trim() || `HTTP ${answer.status}`);
  const message = `Cannot ${request.method} ${request.path}: ${text}`;
  const seconds = Number(answer.retryAfter ?? status?.details?.retryAfterSeconds ?? Number.NaN);
  const retryAfterMs = Number.isFinite(seconds)
    ? Math.min(Math.max(seconds * 1000, 0), longestRetryAfterMs)
    : undefined;
  return errorOf(message, { httpStatus: answer.status, status, retryAfterMs });
}

interface Answered {
  readonly httpStatus: number;
  readonly status: Status | undefined;
  readonly retryAfterMs: number | undefined;
}

function errorOf(message: string, answer: Answered): K8sError {
  const { httpStatus, status } = answer;
  const again = { ...answer, retryable: true };
  switch (httpStatus) {
    case 401:
      return new K8sError("K8S_UNAUTHORIZED", message, {
        ...answer,
        remedy: "Check the credentials of the kubeconfig or service account",
      });
    case 403:
      return new K8sError("K8S_FORBIDDEN", message, {
        ...answer,
        remedy: "Give this identity the missing permission (RBAC), or lift the quota it names",
      });
    case 404:
      return new K8sError("K8S_NOT_FOUND", message, answer);
    case 409:
      return status?.reason === "AlreadyExists"
        ? new K8sError("K8S_ALREADY_EXISTS", message, answer)
        : new K8sError("K8S_CONFLICT", message, again);
    case 410:
      return new K8sError("K8S_GONE", message, again);
    case 400:
    case 422:
      return new K8sError("K8S_INVALID", message, answer);
    case 429:
      return new K8sError("K8S_TOO_MANY_REQUESTS", message, again);
    default:
      return httpStatus >= 500
        ? new K8sError("K8S_UNAVAILABLE", message, again)
        : new K8sError("K8S_REQUEST_FAILED", message, answer);
  }
}

/** The error for a request without a complete response. */
export function unavailable(request: FailedRequest, cause: unknown): K8sError {
  const text = cause instanceof Error ? cause.message || cause.name : "no answer";
  return new K8sError("K8S_UNAVAILABLE", `Cannot ${request.method} ${request.path}: ${text}`, {
    retryable: true,
    cause,
  });
}

function readStatus(body: string): Status | undefined {
  try {
    const value: unknown = JSON.parse(body);
    const isStatus =
      typeof value === "object" && value !== null && "kind" in value && value.kind === "Status";
    return isStatus ? (value as Status) : undefined; // the API server's own document
  } catch {
    return undefined;
  }
}
