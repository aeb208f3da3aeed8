import type { Duplex } from "node:stream";
import { errorText, pause, type Clock, type Logger } from "@kip/base";
import type { RemoteStream, RemoteStreams } from "./transport/remote-streams.ts";

/** Versions of the port-forward protocol. */
export const portForwardProtocols = ["portforward.k8s.io"] as const;

/** A port-forward request that is ready to be served. */
export interface PortForward {
  readonly remote: RemoteStreams;
  /** Time for the client to open the second stream of a connection, milliseconds. */
  readonly creationTimeoutMs: number;
  /** Forwards one connection until either side ends. */
  readonly forward: (port: number, connection: Duplex, signal: AbortSignal) => Promise<void>;
  /** Name of the pod, for errors. */
  readonly podName: string;
  readonly podUid: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Pair {
  readonly port: number;
  readonly complete: AbortController;
  data?: Duplex;
  error?: Duplex;
}

/**
 * Serves the connections of one port-forward. Each connection is a pair of streams with the same `requestID`, one for the bytes
 * and one for an error text. Resolves when the client has disconnected. Never rejects.
 */
export async function servePortForward(request: PortForward): Promise<void> {
  const pairs = new Map<string, Pair>();
  for await (const stream of request.remote.opened) {
    const label = readLabel(stream);
    if (label === undefined) {
      stream.reject();
      continue;
    }
    const pair = joinPair(request, pairs, label, stream);
    if (pair?.data && pair.error) {
      pairs.delete(label.requestId);
      pair.complete.abort();
      void connect(request, pair.port, pair.data, pair.error);
    }
  }
  for (const pair of pairs.values()) pair.complete.abort();
  await request.remote.close();
}

interface Label {
  readonly type: "data" | "error";
  readonly port: number;
  readonly requestId: string;
}

/** Parses the client's description of a stream. Undefined if it is invalid. */
function readLabel({ id, headers }: RemoteStream): Label | undefined {
  const type = headers.get("streamtype")?.toLowerCase();
  if (type !== "data" && type !== "error") return undefined;
  const port = /^\d{1,5}$/.test(headers.get("port") ?? "") ? Number(headers.get("port")) : 0;
  if (port < 1 || port > 65_535) return undefined;
  // Old clients send no request IDs. They open the error stream first and then the data stream.
  const requestId = headers.get("requestid") ?? String(type === "error" ? id : id - 2);
  return { type, port, requestId };
}

/** Adds a stream to its pair. Creates the pair for its first stream. */
function joinPair(
  request: PortForward,
  pairs: Map<string, Pair>,
  { type, port, requestId }: Label,
  stream: RemoteStream,
): Pair | undefined {
  let pair = pairs.get(requestId);
  if (pair?.[type] || (pair && pair.port !== port)) {
    stream.reject();
    return undefined;
  }
  if (pair === undefined) {
    const begun: Pair = { port, complete: new AbortController() };
    pair = begun;
    pairs.set(requestId, begun);
    void expire(request, pairs, requestId, begun);
    // Otherwise a client could leave behind any number of incomplete pairs, one after the other.
    stream.duplex.once("close", () => {
      if (pairs.get(requestId) !== begun) return;
      pairs.delete(requestId);
      begun.complete.abort();
    });
  }
  pair[type] = stream.duplex;
  stream.accept();
  return pair;
}

/** Gives up a pair if its second stream is not opened in time. */
async function expire(
  request: PortForward,
  pairs: Map<string, Pair>,
  requestId: string,
  pair: Pair,
): Promise<void> {
  const { creationTimeoutMs, clock } = request;
  // Otherwise the pair is complete, or the client has disconnected.
  if (!(await pause(creationTimeoutMs, clock, pair.complete.signal))) return;
  pairs.delete(requestId);
  pair.error?.end(`error forwarding port ${pair.port}: timed out waiting for the data stream`);
  pair.error?.resume();
  pair.data?.destroy();
}

async function connect(
  request: PortForward,
  port: number,
  data: Duplex,
  error: Duplex,
): Promise<void> {
  error.resume();
  const broken = new AbortController();
  const onClose = (): void => {
    const isComplete = data.readableEnded && data.writableFinished;
    if (!isComplete) broken.abort(new Error("The client closed the connection"));
  };
  data.once("close", onClose);
  try {
    await request.forward(port, data, broken.signal);
  } catch (cause) {
    if (!broken.signal.aborted) {
      const pod = `pod ${request.podName}, uid ${request.podUid}`;
      error.write(`error forwarding port ${port} to ${pod}: ${errorText(cause)}`);
      request.logger.debug("Could not forward a connection", { port, err: errorText(cause) });
    }
  } finally {
    data.off("close", onClose);
    error.end();
    data.end();
    data.resume(); // drops unread bytes, so that they do not block other connections
  }
}
