import type { Readable } from "node:stream";
import type { ObjectMeta, Status } from "@kip/k8s-types";
import { K8sError } from "../errors.ts";
import type { KubeObject } from "../client/api-client.ts";
import { statusError } from "../client/status-error.ts";

/** One line of a watch. An `ERROR` line throws instead. */
export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  /** Only reports the version that the watch has reached. */
  | { readonly type: "BOOKMARK"; readonly object: { readonly metadata?: ObjectMeta } };

const lineEnd = 10;

/** Longest line, bytes. An object in etcd has at most 1.5 MiB, and JSON is larger than the stored form. */
const maxLineBytes = 32 * 1024 * 1024;

/**
 * Reads a watch response, one JSON document per line, and calls `onEvent` for each event. Resolves when the server ends it.
 * Uses stream events, because an iterator costs several kilobytes for each of thousands of watches.
 *
 * @throws {CodedError} the error of an `ERROR` line (`K8S_GONE` when the version is too old); `K8S_UNAVAILABLE` for a line that
 * is not a valid event; errors of the stream or of `onEvent`
 */
export async function readWatchEvents<T extends KubeObject>(
  body: Readable,
  path: string,
  onEvent: (event: WatchEvent<T>) => void,
): Promise<void> {
  const lines = new Lines(path);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  body.on("data", (chunk: Uint8Array) => {
    try {
      lines.read(chunk, (line) => onEvent(parseLine<T>(line, path)));
    } catch (error) {
      reject(error);
      body.destroy();
    }
  });
  body.on("end", resolve);
  body.on("error", reject);
  // Has no effect after the body's end.
  body.on("close", () => reject(new Error("The connection was closed before the watch's end")));
  await promise;
}

/** Assembles lines from pieces of the stream. */
class Lines {
  readonly #path: string;
  #rest: Buffer[] = [];
  #restBytes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  read(chunk: Uint8Array, onLine: (line: string) => void): void {
    let data = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let end = data.indexOf(lineEnd); end !== -1; end = data.indexOf(lineEnd)) {
      const line = Buffer.concat([...this.#rest, data.subarray(0, end)]).toString("utf8");
      data = data.subarray(end + 1);
      this.#rest = [];
      this.#restBytes = 0;
      if (line.trim() !== "") onLine(line);
    }
    if (data.length > 0) this.#rest.push(data);
    this.#restBytes += data.length;
    if (this.#restBytes > maxLineBytes) throw broken(this.#path, "a line is longer than 32 MiB");
  }
}

function parseLine<T extends KubeObject>(line: string, path: string): WatchEvent<T> {
  let event: { readonly type?: unknown; readonly object?: unknown } | null;
  try {
    event = JSON.parse(line) as typeof event; // checked below
  } catch {
    throw broken(path, "a line is not valid JSON"); // the parser's message would quote the line, which may be a Secret
  }
  switch (event?.type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      if (!hasMetadata(event.object)) throw broken(path, "an event has no object");
      return { type: event.type, object: event.object as T }; // the API server follows its schema
    case "BOOKMARK":
      if (!hasMetadata(event.object)) throw broken(path, "an event has no object");
      return { type: event.type, object: event.object }; // as above
    case "ERROR": {
      const status = event.object as Status | undefined; // the content of an ERROR event
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
