import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { Identity, ListMeta, ObjectMeta } from "@kip/k8s-types";

/** An object that an API server has stored. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta & Identity;
}

/** The response to a list request. As the server sends them, items have no `apiVersion` and `kind`. */
export interface ObjectList<T> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ListMeta;
  readonly items: readonly T[];
}

/** Query parameters. Undefined ones are omitted. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** The format of a patch: RFC 7386, Kubernetes' strategic merge, RFC 6902, or server-side apply. */
export type PatchType = "merge" | "strategic" | "json" | "apply";

/** Options of every request. */
export interface RequestOptions {
  readonly query?: Query | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Time limit for the complete response, milliseconds. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /** Requested media type. @default "application/json" */
  readonly accept?: string | undefined;
  /**
   * Whether to go ahead of other waiting requests, three to one. For heartbeats, which thousands of pods must not delay, and
   * for responses that a person waits for. @default false
   */
  readonly isUrgent?: boolean | undefined;
  /**
   * Whether to let all other waiting requests go ahead, 31 in a row at most. For the first request of new work, so that work in
   * progress is finished before more is begun. Ignored if it is urgent. @default false
   */
  readonly isDeferrable?: boolean | undefined;
  /**
   * Gives the request up while it waits for its turn. Unlike `signal`, it has no effect afterwards, so it never leaves open
   * whether the server has handled the request.
   */
  readonly unsentSignal?: AbortSignal | undefined;
}

/** Options of {@link ApiClient.patch}. */
export interface PatchOptions extends RequestOptions {
  /** The owner of the fields, required for `apply`. @default the client's user agent up to the first "/" */
  readonly fieldManager?: string | undefined;
  /** With `apply`: whether to take fields over from other owners. @default false */
  readonly force?: boolean | undefined;
}

/** Options of {@link ApiClient.delete}. */
export interface DeleteOptions extends RequestOptions {
  /** Deletes only the object with this UID. A different one fails with `K8S_CONFLICT`. */
  readonly uid?: string | undefined;
  /** Deletes the object only in this version of it. Another one fails with `K8S_CONFLICT`. */
  readonly resourceVersion?: string | undefined;
  /** Grace period in seconds, 0 or more. @default the object's own */
  readonly graceSeconds?: number | undefined;
  readonly propagation?: "Orphan" | "Background" | "Foreground" | undefined;
}

/** Options of {@link ApiClient.stream}. */
export interface StreamOptions {
  readonly query?: Query | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Time limit for the response's head, and for a complete response other than 200, milliseconds. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /** Requested media type. @default "application/json" */
  readonly accept?: string | undefined;
}

/** Options of {@link ApiClient.request}. */
export interface RawRequestOptions extends RequestOptions {
  /** Bytes and text are sent unchanged, everything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A response with any status code. */
export interface RawResponse {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** At most the first MiB if the status is 300 or more. */
  readonly body: Buffer;
}

/**
 * A client of one Kubernetes API server. Paths come from {@link paths}.
 *
 * A response of 300 or more throws a {@link K8sError} with the server's `Status` in `status`, its HTTP code in `httpStatus`,
 * and one of the codes `K8S_NOT_FOUND`, `K8S_CONFLICT`, `K8S_ALREADY_EXISTS`, `K8S_GONE`, `K8S_INVALID`, `K8S_FORBIDDEN`,
 * `K8S_UNAUTHORIZED`, `K8S_TOO_MANY_REQUESTS` (`retryAfterMs`), `K8S_REQUEST_FAILED`. A server that is unreachable, closes the
 * connection, answers 5xx or does not answer JSON is `K8S_UNAVAILABLE`. `K8S_TOO_MANY_REQUESTS` and `K8S_UNAVAILABLE` are
 * retryable. The client repeats nothing, except a GET on a kept-alive connection that the server had just closed.
 */
export interface ApiClient {
  /** Base URL of the server, without a trailing slash. */
  readonly server: string;
  /**
   * How long the oldest waiting request has waited, milliseconds. 0 if none is waiting. Requests wait before they are sent if a
   * program makes more than the server answers. @default unknown
   */
  readonly longestWaitMs?: number | undefined;
  get<T>(path: string, options?: RequestOptions): Promise<T>;
  list<T>(path: string, options?: RequestOptions): Promise<ObjectList<T>>;
  create<T>(path: string, body: unknown, options?: RequestOptions): Promise<T>;
  replace<T>(path: string, body: unknown, options?: RequestOptions): Promise<T>;
  patch<T>(path: string, body: unknown, type: PatchType, options?: PatchOptions): Promise<T>;
  /** Deletes an object. Resolves with the object or the Status that the server returns. */
  delete<T = unknown>(path: string, options?: DeleteOptions): Promise<T>;
  /** A GET whose body is read as it arrives, for watches and logs. Aborting the signal also destroys the body. */
  stream(path: string, options?: StreamOptions): Promise<Readable>;
  /** Any request. Does not throw for a status of 400 or more. */
  request(method: string, path: string, options?: RawRequestOptions): Promise<RawResponse>;
  /** Closes idle connections. */
  close(): void;
}
