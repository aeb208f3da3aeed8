import type { ObjectMeta, Status } from "@kip/k8s-types";
import { K8sError } from "../errors.ts";
import type { KubeObject } from "../client/api-client.ts";
import { statusError } from "../client/status-error.ts";

/** One line of a watch. An `ERROR` line is thrown instead. */
export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  /** Says only up to which version the watch has come. */
  | { readonly type: "BOOKMARK"; readonly object: { readonly metadata?: ObjectMeta } };

const lineEnd = 10;

/** Largest line that is read: an object is at most 1.5 MiB in etcd, and JSON is wider than its storage form. */
const maxLineBytes = 32 * 1024 * 1024;

/**
 * The events of a watch response: one JSON document per line.
 *
 * @throws {CodedError} the error of an `ERROR` line (`K8S_GONE` when the version is too old);
 *   `K8S_UNAVAILABLE` for a line that is not a valid event
 */
export async function* watchEvents<T extends KubeObject>(
  body: AsyncIterable<Uint8Array>,
  path: string,
): AsyncGenerator<WatchEvent<T>> {
  let rest: Buffer[] = [];
  let restBytes = 0;
  for await (const chunk of body) {
    let data = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let end = data.indexOf(lineEnd); end !== -1; end = data.indexOf(lineEnd)) {
      const line = Buffer.concat([...rest, data.subarray(0, end)]).toString("utf8");
      data = data.subarray(end + 1);
      rest = [];
      restBytes = 0;
      if (line.trim() !== "") yield parseLine<T>(line, path);
    }
    if (data.length > 0) rest.push(data);
    restBytes += data.length;
    if (restBytes > maxLineBytes) throw broken(path, "a line is longer than 32 MiB");
  }
}

function parseLine<T extends KubeObject>(line: string, path: string): WatchEvent<T> {
  let event: { readonly type?: unknown; readonly object?: unknown } | null;
  try {
    event = JSON.parse(line) as typeof event; // checked below
  } catch {
    throw broken(path, "a line is not valid JSON"); // the parser would quote it: it may be a Secret
  }
  switch (event?.type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      if (!hasMetadata(event.object)) throw broken(path, "an event has no object");
      return { type: event.type, object: event.object as T }; // the API server keeps to its schema
    case "BOOKMARK":
      if (!hasMetadata(event.object)) throw broken(path, "an event has no object");
      return { type: event.type, object: event.object }; // as above
    case "ERROR": {
      const status = event.object as Status | undefined; // what an ERROR carries
      throw statusError(
        { method: "WATCH", path },
        { status: status?.code ?? 500, retryAfter: undefined, body: JSON.stringify(status ?? {}) },
      );
    }
    default:
      throw broken(path, `an event has the type "${String(event?.type)}"`);
  }
}

function hasMetadata(object: unknown): object is { readonly metadata: ObjectMeta } {
  const { metadata } = (object ?? {}) as { readonly metadata?: unknown }; // checked here
  return typeof metadata === "object" && metadata !== null;
}

function broken(path: string, reason: string): K8sError {
  return new K8sError("K8S_UNAVAILABLE", `Cannot WATCH ${path}: ${reason}`, { retryable: true });
}
