import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { Identity, ListMeta, ObjectMeta } from "@kip/k8s-types";

/** Any object that an API server has stored. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta & Identity;
}

/** The answer to a list request. The items carry no `apiVersion` and `kind`, as the server sends them. */
export interface ObjectList<T> {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ListMeta;
  readonly items: readonly T[];
}

/** Query parameters; undefined ones are left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** What a patch body is: RFC 7386, Kubernetes' strategic merge, RFC 6902, or server-side apply. */
export type PatchType = "merge" | "strategic" | "json" | "apply";

/** Options of every request. */
export interface RequestOptions {
  readonly query?: Query | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the whole answer, milliseconds. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /** Media type wanted. @default "application/json" */
  readonly accept?: string | undefined;
  /**
   * Goes before the requests that wait for a connection, three to one: for heartbeats, which thousands of pods must
   * not hold up, and for answers that a person waits for. @default false
   */
  readonly isUrgent?: boolean | undefined;
}

/** Options of {@link ApiClient.patch}. */
export interface PatchOptions extends RequestOptions {
  /** Who owns the fields; mandatory for `apply`. @default the client's user agent up to the first "/" */
  readonly fieldManager?: string | undefined;
  /** With `apply`: takes fields over from other owners. @default false */
  readonly force?: boolean | undefined;
}

/** Options of {@link ApiClient.delete}. */
export interface DeleteOptions extends RequestOptions {
  /** Only the object with this UID; another one answers `K8S_CONFLICT`. */
  readonly uid?: string | undefined;
  /** Seconds, 0 or more. @default the object's own */
  readonly graceSeconds?: number | undefined;
  readonly propagation?: "Orphan" | "Background" | "Foreground" | undefined;
}

/** Options of {@link ApiClient.stream}. */
export interface StreamOptions {
  readonly query?: Query | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Longest wait for the head of the answer, and for all of an answer other than 200, milliseconds. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /** Media type wanted. @default "application/json" */
  readonly accept?: string | undefined;
}

/** Options of {@link ApiClient.request}. */
export interface RawRequestOptions extends RequestOptions {
  /** Sent as it is if it is bytes or text, else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Any answer, whatever its status code. */
export interface RawResponse {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** Of an answer of 300 or more at most its first MiB. */
  readonly body: Buffer;
}

/**
 * Talks to one Kubernetes API server. Paths come from {@link paths}.
 *
 * An answer of 300 or more is a {@link K8sError} with the server's `Status` in `status`, its HTTP
 * code in `httpStatus`, and one of the codes `K8S_NOT_FOUND`, `K8S_CONFLICT`,
 * `K8S_ALREADY_EXISTS`, `K8S_GONE`, `K8S_INVALID`, `K8S_FORBIDDEN`, `K8S_UNAUTHORIZED`,
 * `K8S_TOO_MANY_REQUESTS` (`retryAfterMs`), `K8S_REQUEST_FAILED`; a server that is out of
 * reach, cuts the connection, answers 5xx or no JSON is `K8S_UNAVAILABLE`. The last but one are retryable.
 * Nothing is repeated here, except a GET on a kept-alive connection that the server had just closed.
 */
export interface ApiClient {
  /** Base URL of the server, without a slash at the end. */
  readonly server: string;
  /**
   * How long the request that has waited the longest for its turn has waited, milliseconds; 0 if none waits. Requests of a program that
   * makes more than the server answers wait before they are sent. @default not known
   */
  readonly longestWaitMs?: number | undefined;
  get<T>(path: string, options?: RequestOptions): Promise<T>;
  list<T>(path: string, options?: RequestOptions): Promise<ObjectList<T>>;
  create<T>(path: string, body: unknown, options?: RequestOptions): Promise<T>;
  replace<T>(path: string, body: unknown, options?: RequestOptions): Promise<T>;
  patch<T>(path: string, body: unknown, type: PatchType, options?: PatchOptions): Promise<T>;
  /** Deletes; resolves with the object or the Status that the server answers. */
  delete<T = unknown>(path: string, options?: DeleteOptions): Promise<T>;
  /** A GET whose body is read as it comes, for watches and logs. The signal also cuts the body. */
  stream(path: string, options?: StreamOptions): Promise<Readable>;
  /** Any request; does not throw for an answer of 400 or more. */
  request(method: string, path: string, options?: RawRequestOptions): Promise<RawResponse>;
  /** Closes kept-alive connections. */
  close(): void;
}
