import http2, {
  type Http2SecureServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { PeerCertificate, SecureContextOptions, TLSSocket } from "node:tls";
import { AgentError, maxSessionMemory, type CellIdentity } from "@kip/agent-api";
import { portOf, type Logger } from "@kip/base";
import { answerError } from "./answers.ts";
import { maxUnidentified, UnidentifiedConnections } from "./unidentified-connections.ts";

/** Handles one request. Failures become error responses. */
export type Handler = (stream: ServerHttp2Stream, request: AgentRequest) => Promise<void>;

/** The parts of a request from its headers. */
export interface AgentRequest {
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** Options of {@link listen}. */
export interface ListenOptions {
  readonly identity: CellIdentity;
  readonly port: number;
  readonly host?: string | undefined;
  readonly handler: Handler;
  readonly logger: Logger;
}

/** A server that is listening. */
export interface AgentServer extends AsyncDisposable {
  readonly port: number;
  /** Uses another certificate for new connections. */
  setIdentity(identity: CellIdentity): void;
}

const clientName = "kip";
const windowBytes = 1024 * 1024;
/**
 * Bytes that kip may have on their way to the agent, of all streams of a connection. Small enough for the buffers of TCP: Node
 * reads nothing while a write of its own waits for room. If that held for both sides at once, neither would ever read again.
 */
const sessionWindowBytes = 128 * 1024;

/** Minimum interval of log lines about refused connections, milliseconds. */
const refusalMs = 10_000;

/**
 * Maximum number of streams of a connection. Kip opens at most 250 for clients, and a few of its own. Node counts a closed stream a
 * little longer than kip does.
 */
const maxConcurrentStreams = 1000;

/** Maximum number of kip's connections. */
const maxKipConnections = 64;

/**
 * Listens for kip: HTTP/2 over TLS 1.3, only for a client whose certificate is from our CA and has the common name `kip`.
 * Cells' certificates are from the same CA, so the name has to be checked.
 *
 * @throws {AgentError} code `AGENT_LISTEN_FAILED`
 */
export async function listen(options: ListenOptions): Promise<AgentServer> {
  const server = http2.createSecureServer({
    ...secureContext(options.identity),
    requestCert: true,
    rejectUnauthorized: true,
    handshakeTimeout: 10_000,
    maxSessionMemory,
    // Each command that ends and each client that leaves resets a stream: Node's 33 a second are few for the users of a pod.
    streamResetBurst: 10_000,
    streamResetRate: 1000,
    settings: { initialWindowSize: windowBytes, maxConcurrentStreams, enablePush: false },
  });
  server.maxConnections = maxKipConnections + maxUnidentified;
  const unidentified = new UnidentifiedConnections();
  server.on("connection", (socket) => unidentified.add(socket));
  const sessions = new Set<Http2Session>();
  server.on("session", (session) => {
    if (isOfKip(session)) unidentified.release(session.socket);
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", (error) => options.logger.debug("Lost a connection", { err: error }));
    session.setLocalWindowSize(sessionWindowBytes);
  });
  server.on("tlsClientError", logRefusals(options.logger));
  server.on("stream", (stream, headers) => void serve(stream, headers, options));
  await open(server, options);
  const port = portOf(server);
  return {
    port,
    setIdentity: (identity) => server.setSecureContext(secureContext(identity)),
    [Symbol.asyncDispose]: async () => {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Logs refused connections, at most one in {@link refusalMs} with the number of those before it. Anyone who can reach the agent
 * may cause any number of them, and each line costs time: the agent waits for its console, which may be a slow serial line.
 */
function logRefusals(logger: Logger): (error: Error) => void {
  let loggedAtMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  return (error) => {
    const nowMs = performance.now();
    if (nowMs - loggedAtMs < refusalMs) {
      unlogged += 1;
      return;
    }
    logger.warn("Refused a connection", { err: error.message, unlogged });
    loggedAtMs = nowMs;
    unlogged = 0;
  };
}

/** The complete settings of a TLS context, because a new context does not inherit from the one before. */
function secureContext({ ca, certificate, key }: CellIdentity): SecureContextOptions {
  return { ca, cert: certificate, key, minVersion: "TLSv1.3" };
}

async function open(server: Http2SecureServer, options: ListenOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) =>
      reject(
        new AgentError(
          "AGENT_LISTEN_FAILED",
          `Cannot listen on port ${options.port}: ${error.message}`,
          { cause: error, remedy: "End the program that has the port" },
        ),
      ),
    );
    server.listen(options.port, options.host, resolve);
  });
}

async function serve(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  options: ListenOptions,
): Promise<void> {
  // Readers and writers of the stream handle its failure. This only keeps it from ending the process.
  stream.on("error", () => {});
  try {
    checkClient(stream);
    const url = new URL(headers[":path"] ?? "/", "https://cell");
    const request = {
      method: headers[":method"] ?? "",
      path: url.pathname,
      query: url.searchParams,
    };
    await options.handler(stream, request);
  } catch (error) {
    options.logger.debug("Answered with an error", { path: headers[":path"], err: error });
    answerError(stream, error);
  }
}

function checkClient({ session }: ServerHttp2Stream): void {
  if (isOfKip(session)) return;
  throw new AgentError(
    "AGENT_FORBIDDEN",
    `Cannot serve "${String(clientOf(session))}": only the client "${clientName}" may ask`,
  );
}

function isOfKip(session: Http2Session | undefined): boolean {
  return clientOf(session) === clientName;
}

function clientOf(session: Http2Session | undefined): unknown {
  const socket = session?.socket as TLSSocket | undefined; // the server is a TLS server
  const certificate: Partial<PeerCertificate> | undefined = socket?.getPeerCertificate();
  return certificate?.subject?.CN;
}
