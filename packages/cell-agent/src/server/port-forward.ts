import { spawn } from "node:child_process";
import { once } from "node:events";
import type { ServerHttp2Stream } from "node:http2";
import net from "node:net";
import { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { AgentError } from "@kip/agent-api";
import {
  errorText,
  hasPipes,
  SerialQueue,
  systemClock,
  untilAborted,
  withTimeout,
  type Logger,
} from "@kip/base";
import { mergedPieces } from "./small-pieces.ts";

/** How long connecting may take, milliseconds. Kip waits 30 s for the response, and then takes the cell for unreachable. */
const usualConnectMs = 25_000;

/** How long a server may take to read what it has not read when both directions have ended, milliseconds. */
const lingerMs = 60_000;

/**
 * Lets one forwarding program start in each turn of the event loop. Node blocks until a program has started. If a hundred
 * connections came at once, the agent would not answer, and kip would consider the cell lost.
 */
const starts = new SerialQueue();

/**
 * Connects a stream with a port of the pod, from inside the pod's network. So programs that only listen on localhost can also
 * be reached.
 *
 * A socket belongs to the network namespace of the thread that created it, which Node cannot change. So this runs `socat` with
 * a socket from the pod's namespace. It forwards the end of each direction.
 */
export async function servePortForward(
  stream: ServerHttp2Stream,
  options: {
    readonly port: number;
    /** File of the pod's network namespace. Absent for the machine's own network. */
    readonly networkNamespace: string | undefined;
    readonly logger: Logger;
    /** How long connecting may take, milliseconds. @default 25000 */
    readonly connectMs?: number | undefined;
  },
): Promise<void> {
  const { port, networkNamespace, logger, connectMs = usualConnectMs } = options;
  const gone = new AbortController();
  stream.once("close", () => gone.abort());
  const connection = await withTimeout(
    async (signal) =>
      networkNamespace === undefined
        ? await connectLocally(port, signal)
        : await connectInNamespace(networkNamespace, port, { logger, signal }),
    {
      limitMs: connectMs,
      clock: systemClock,
      signal: gone.signal,
      error: () => refused(port, `no answer within ${connectMs / 1000} s`),
    },
  );
  if (stream.destroyed) return void connection.destroy();
  stream.respond({ ":status": 200, "content-type": "application/octet-stream" });
  stream.once("close", () => {
    if (connection.closed) return;
    const isComplete = stream.readableEnded && stream.writableFinished;
    // The pipelines do not notice the end of the stream while they wait for a server that neither reads nor sends.
    const timer = setTimeout(() => connection.destroy(), isComplete ? lingerMs : 0);
    connection.once("close", () => clearTimeout(timer));
  });
  // Each direction ends separately, because a client that has sent everything still wants the response.
  const results = await Promise.allSettled([
    pipeline(stream.iterator({ destroyOnReturn: false }), connection),
    pipeline(mergedPieces(connection, gone.signal), stream),
  ]);
  for (const result of results)
    if (result.status === "rejected")
      logger.debug("Lost a forwarded connection", { err: result.reason });
  connection.destroy();
  stream.destroy();
}

async function connectLocally(port: number, signal: AbortSignal): Promise<Duplex> {
  try {
    return await connected("127.0.0.1", port, signal);
  } catch (error) {
    signal.throwIfAborted();
    return await connected("::1", port, signal).catch(() => {
      throw refused(port, errorText(error));
    });
  }
}

async function connected(host: string, port: number, signal: AbortSignal): Promise<Duplex> {
  const socket = net.connect({ host, port, allowHalfOpen: true });
  try {
    await once(socket, "connect", { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

async function connectInNamespace(
  namespace: string,
  port: number,
  { logger, signal }: { readonly logger: Logger; readonly signal: AbortSignal },
): Promise<Duplex> {
  const [program = "", ...args] = dialCommand(namespace, port);
  await starts.run(async () => await nextTurn()); // see `starts`
  signal.throwIfAborted();
  // Without the agent's locale. If the cell lacks that, perl would write warnings first.
  const env = { PATH: "/usr/bin:/bin" };
  const child = spawn(program, args, { env, stdio: ["pipe", "pipe", "pipe"] });
  const dialled = Promise.withResolvers<void>();
  dialled.promise.catch(() => {}); // also without a reader below
  child.on("error", (error) => dialled.reject(refused(port, error.message)));
  if (!hasPipes(child)) throw refused(port, "no descriptor is left on the cell");
  const connection = Duplex.from({ readable: child.stdout, writable: child.stdin });
  connection.on("error", () => {}); // before there are readers, who get it too
  connection.once("close", () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const isComplete = connection.readableEnded && connection.writableFinished;
    const timer = setTimeout(() => child.kill("SIGKILL"), isComplete ? lingerMs : 0);
    child.once("exit", () => clearTimeout(timer));
  });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    if (output.startsWith(dialledLine)) dialled.resolve();
    logger.debug("Received a message of the forwarding program", { output: text.trim() });
  });
  const hasReadOutput = once(child.stderr, "close").catch(() => {});
  child.on("exit", (code) => {
    if (code === 0) return;
    const problem = `the forwarding program ended with ${code}`;
    void hasReadOutput.then(() => dialled.reject(refused(port, output.trim() || problem)));
    connection.destroy(refused(port, problem));
  });
  try {
    await untilAborted(dialled.promise, signal);
  } catch (error) {
    connection.destroy();
    throw error;
  }
  return connection;
}

/** What the script writes to its error stream when it has a connection. */
const dialledLine = "connected\n";

/**
 * A script for perl-base, because this `socat` does not try a second address. It connects by IPv4, and otherwise by IPv6, like
 * containerd, because a program that listens on "localhost" may only use one of them. Descriptors up to `$^F` are passed on to
 * the program that it starts. Without `shut-close`, `socat` does not report that the server has closed or reset the connection
 * until the client has ended its side, too.
 */
const dial = `
my $port = shift;
my @ways = (
  [AF_INET, pack_sockaddr_in($port, INADDR_LOOPBACK)],
  [AF_INET6, pack_sockaddr_in6($port, Socket::IN6ADDR_LOOPBACK)],
);
$^F = 255;
my $problem;
for (@ways) {
  my ($family, $address) = @$_;
  if (socket(S, $family, SOCK_STREAM, 0) && connect(S, $address)) {
    syswrite STDERR, "connected\\n";
    exec 'socat', '-t', '86400', 'STDIO,shut-close', 'FD:' . fileno(S) . ',shut-down';
  }
  $problem = $problem || "$!\\n";
}
die $problem;
`;

/** Dials a port at the loopback address of a network namespace. The request has no address, so nothing else can be reached. */
export function dialCommand(namespace: string, port: number): readonly string[] {
  const perl = ["/usr/bin/perl", "-MSocket", "-e", dial, String(port)];
  return ["/usr/bin/nsenter", `--net=${namespace}`, ...perl];
}

function refused(port: number, reason: string): AgentError {
  return new AgentError(
    "AGENT_PORT_REFUSED",
    `Cannot connect to port ${port} of the pod: ${reason}`,
  );
}
