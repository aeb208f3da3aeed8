import { spawn } from "node:child_process";
import type { ServerHttp2Stream } from "node:http2";
import net from "node:net";
import { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { AgentError } from "@kip/agent-api";
import { hasPipes, type Logger } from "@kip/base";

/**
 * Connects a stream with a port of the pod, as seen from inside the pod: programs that listen on
 * localhost only are reached too.
 *
 * A socket belongs to the network namespace of the thread that made it and Node cannot change that,
 * so `socat` is run in the pod's namespace; it passes the end of each direction on by itself.
 */
export async function servePortForward(
  stream: ServerHttp2Stream,
  options: {
    readonly port: number;
    /** File that names the pod's network namespace; absent for the machine's own network. */
    readonly networkNamespace: string | undefined;
    readonly logger: Logger;
  },
): Promise<void> {
  const { port, networkNamespace, logger } = options;
  const connection =
    networkNamespace === undefined
      ? await connectLocally(port)
      : connectInNamespace(networkNamespace, port, logger);
  stream.respond({ ":status": 200, "content-type": "application/octet-stream" });
  // Each direction ends by itself: a client that has sent all still wants the answer.
  const results = await Promise.allSettled([
    pipeline(stream.iterator({ destroyOnReturn: false }), connection),
    pipeline(connection.iterator({ destroyOnReturn: false }), stream),
  ]);
  for (const result of results)
    if (result.status === "rejected")
      logger.debug("Lost a forwarded connection", { err: result.reason });
  connection.destroy();
  stream.destroy();
}

async function connectLocally(port: number): Promise<Duplex> {
  const socket = net.connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", (error) => reject(refused(port, error.message)));
  });
  return socket;
}

function connectInNamespace(namespace: string, port: number, logger: Logger): Duplex {
  const [program = "", ...args] = dialCommand(namespace, port);
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  const failed = Promise.withResolvers<Error>();
  child.on("error", failed.resolve);
  if (!hasPipes(child)) throw refused(port, "no descriptor is left on the cell");
  const connection = Duplex.from({ readable: child.stdout, writable: child.stdin });
  void failed.promise.then((error) => connection.destroy(refused(port, error.message)));
  child.stderr
    .setEncoding("utf8")
    .on("data", (text: string) =>
      logger.debug("Received a message of the forwarding program", { output: text.trim() }),
    );
  child.on("exit", (code) => {
    if (code !== 0) connection.destroy(refused(port, `socat ended with ${code}`));
  });
  connection.once("close", () => child.kill("SIGKILL"));
  return connection;
}

/** Dials a port of a network namespace's own loopback. No address is part of the request, so none elsewhere is reached. */
export function dialCommand(namespace: string, port: number): readonly string[] {
  const socat = ["socat", "-t", "86400", "STDIO", `TCP4:127.0.0.1:${port}`];
  return ["/usr/bin/nsenter", `--net=${namespace}`, ...socat];
}

function refused(port: number, reason: string): AgentError {
  return new AgentError(
    "AGENT_PORT_REFUSED",
    `Cannot connect to port ${port} of the pod: ${reason}`,
  );
}
