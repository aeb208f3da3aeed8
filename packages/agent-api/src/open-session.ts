import http2, { type ClientHttp2Session } from "node:http2";
import net, { type Socket } from "node:net";
import tls, { type PeerCertificate, type SecureContext, type TLSSocket } from "node:tls";
import { AgentError } from "./errors.ts";
import { cellServerName, maxSessionMemory } from "./routes.ts";

/** The cell to connect to, and kip's credentials for it. */
export interface PeerOptions {
  /** Management address of the cell. */
  readonly address: string;
  /** Name of the cell. The agent's certificate must have exactly this name. */
  readonly cellName: string;
  /** PEM: the CA that signed the agent's certificate. */
  readonly ca: string;
  /** PEM: kip's client certificate and key. */
  readonly certificate: string;
  readonly key: string;
}

/**
 * How much of one response the peer may send before it is read, bytes. HTTP/2 only counts content: a hostile peer sends this
 * many frames of one byte, and Node processes each at once.
 */
const windowBytes = 64 * 1024 - 1;
/** The same limit for all responses together. */
const sessionWindowBytes = 4 * windowBytes;

/**
 * HTTP/2 in TLS' protocol list. Node copies it for each connection. It would copy a list of names or a Buffer into bytes of a
 * 64 KiB pool, which the connection would keep. It copies another kind of view into its own three bytes.
 */
const protocols = new DataView(Uint8Array.from(Buffer.from("\u0002h2")).buffer);

/** Opens a TCP connection. Throws `AGENT_UNREACHABLE` if that fails or takes longer than `timeoutMs`. */
export async function openTcp(
  peer: PeerOptions,
  options: {
    readonly port: number;
    readonly timeoutMs: number;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<Socket> {
  const socket = net.connect({ host: peer.address, port: options.port, noDelay: true });
  return await settle(socket, "connect", { ...options, socket, peer, stage: "connection" });
}

/**
 * Starts TLS and HTTP/2 on a connection. Resolves when the agent has accepted our certificate, which its first HTTP/2 settings
 * show. In TLS 1.3 the handshake ends before that.
 */
export async function openSession(
  socket: Socket,
  peer: PeerOptions,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<ClientHttp2Session> {
  const name = cellServerName(peer.cellName);
  const secure = tls.connect({
    socket,
    servername: name,
    secureContext: contextFor(peer),
    ALPNProtocols: protocols,
    checkServerIdentity: (_host, certificate) => checkName(name, certificate),
  });
  await settle<TLSSocket>(secure, "secureConnect", {
    ...options,
    socket: secure,
    peer,
    stage: "TLS handshake",
  });
  const session = http2.connect(`https://${name}`, {
    createConnection: () => secure,
    maxSessionMemory,
    settings: { enablePush: false, initialWindowSize: windowBytes },
  });
  await settle<ClientHttp2Session>(session, "remoteSettings", {
    ...options,
    socket: session,
    peer,
    stage: "connection after the TLS handshake; it may refuse our certificate",
  });
  session.setLocalWindowSize(sessionWindowBytes);
  return session; // requests report failures of the connection
}

let known:
  (Pick<PeerOptions, "ca" | "certificate" | "key"> & { context: SecureContext }) | undefined;

/**
 * The TLS context for kip's key pair. Kip only uses one pair at a time, so all connections share the context, which takes 100
 * KB and a millisecond.
 */
function contextFor({ ca, certificate, key }: PeerOptions): SecureContext {
  if (known?.ca !== ca || known.certificate !== certificate || known.key !== key) {
    const context = tls.createSecureContext({ ca, cert: certificate, key, minVersion: "TLSv1.3" });
    known = { ca, certificate, key, context };
  }
  return known.context;
}

/** The error for a connection that failed or was lost. */
export function unreachable(peer: { readonly cellName: string }, cause: unknown): AgentError {
  const text = cause instanceof Error ? cause.message : String(cause);
  return new AgentError("AGENT_UNREACHABLE", `Cannot reach cell "${peer.cellName}": ${text}`, {
    cause,
    retryable: true,
    remedy: "Look at the cell's console output if this goes on",
  });
}

interface Settling<T> {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly socket: T;
  /** The current stage, for messages. */
  readonly stage: string;
  readonly peer: PeerOptions;
}

/**
 * Waits for an event of a new connection, and destroys the connection if it does not come in time. Afterwards its listeners are
 * gone: they would last as long as the connection, and make an error with a stack trace at its end.
 */
async function settle<T extends Socket | ClientHttp2Session>(
  emitter: T,
  event: string,
  options: Settling<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const fail = (error: Error): void => reject(error);
  const onAbort = (): void => fail(abortReason(options.signal));
  const timer = setTimeout(
    () => fail(unreachable(options.peer, `no answer within ${options.timeoutMs} ms`)),
    options.timeoutMs,
  );
  options.signal?.addEventListener("abort", onAbort, { once: true });
  const onEvent = (): void => resolve(emitter);
  const onError = (error: Error): void => fail(connectionError(options.peer, error));
  const onClose = (): void => fail(unreachable(options.peer, `it ended the ${options.stage}`));
  emitter.on("error", ignore); // Node would end the process for an error that comes later
  emitter.on("error", onError);
  emitter.once(event, onEvent);
  // A refusal of our certificate comes after the handshake, and closes the connection.
  emitter.once("close", onClose);
  try {
    options.signal?.throwIfAborted();
    return await promise;
  } catch (error) {
    emitter.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", onAbort);
    emitter.off("error", onError);
    emitter.off(event, onEvent);
    emitter.off("close", onClose);
  }
}

function ignore(): void {}

function abortReason(signal: AbortSignal | undefined): Error {
  return signal?.reason instanceof Error ? signal.reason : new Error("Aborted");
}

/** Accepts a certificate with exactly one name, ours. We issue none with wildcards or several names. */
function checkName(name: string, certificate: PeerCertificate): Error | undefined {
  if (certificate.subjectaltname === `DNS:${name}`) return undefined;
  return new AgentError(
    "AGENT_IDENTITY_INVALID",
    `Cannot trust the agent: its certificate names "${certificate.subjectaltname ?? ""}", not "DNS:${name}"`,
  );
}

function connectionError(peer: PeerOptions, error: Error): AgentError {
  if (AgentError.is(error, "AGENT_IDENTITY_INVALID")) return error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const isTrust = /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/.test(code);
  if (!isTrust) return unreachable(peer, error);
  return new AgentError(
    "AGENT_IDENTITY_INVALID",
    `Cannot trust the agent of cell "${peer.cellName}": ${error.message}`,
    { cause: error, remedy: "Let the cell be replaced if its certificate has expired" },
  );
}
