import type { Duplex } from "node:stream";
import { errorText, pause, type Clock, type Logger } from "@kip/base";
import type { RemoteStream, RemoteStreams } from "./transport/remote-streams.ts";

/** Versions of the port-forward protocol. */
export const portForwardProtocols = ["portforward.k8s.io"] as const;

/** One `kubectl port-forward`, ready to be served. */
export interface PortForward {
  readonly remote: RemoteStreams;
  /** Milliseconds between the two streams of a connection. */
  readonly creationTimeoutMs: number;
  /** Copies one connection until either side ends. */
  readonly forward: (port: number, connection: Duplex, signal: AbortSignal) => Promise<void>;
  /** Names the pod in errors. */
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
 * Serves the connections of one port-forward: each is a pair of streams, one for the bytes and one
 * for an error text, with the same `requestID`. Resolves when the client is gone; never rejects.
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

/** The client's description of a stream; undefined if it is not valid. */
function readLabel({ id, headers }: RemoteStream): Label | undefined {
  const type = headers.get("streamtype")?.toLowerCase();
  if (type !== "data" && type !== "error") return undefined;
  const port = /^\d{1,5}$/.test(headers.get("port") ?? "") ? Number(headers.get("port")) : 0;
  if (port < 1 || port > 65_535) return undefined;
  // Old clients have no request ids: they open the error stream, and the data stream next to it.
  const requestId = headers.get("requestid") ?? String(type === "error" ? id : id - 2);
  return { type, port, requestId };
}

/** Adds a stream to its pair, which it begins if it is the first. */
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
    // Or else a client could make any number of them, one after the other.
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

/** Gives up a pair whose second stream does not come. */
async function expire(
  request: PortForward,
  pairs: Map<string, Pair>,
  requestId: string,
  pair: Pair,
): Promise<void> {
  const { creationTimeoutMs, clock } = request;
  // Else it is complete, or the client is gone.
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
    data.resume(); // drops unread bytes, so that they do not hold up other connections
  }
}
