import http2 from "node:http2";
import { bytesOf, untilAborted } from "@kip/base";

/** What the server may say of its health, by number: grpc.health.v1.HealthCheckResponse.ServingStatus. */
const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;
const serving = 1;
/** gRPC's status "unimplemented". */
const unimplemented = "12";
/** An answer is some ten bytes. */
const maxAnswerBytes = 16 * 1024;

/**
 * Asks a gRPC server for the health of a service, without TLS as the kubelet does.
 *
 * @returns undefined if it serves, else what is wrong
 * @throws {Error} if there is no answer
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export async function askGrpcHealth(
  options: { readonly host: string; readonly port: number; readonly service: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const { host, port, service } = options;
  const session = http2.connect(`http://${host.includes(":") ? `[${host}]` : host}:${port}`);
  const lost = new AbortController();
  session.on("error", (error) => lost.abort(error));
  try {
    signal.throwIfAborted();
    const over = AbortSignal.any([signal, lost.signal]);
    const { status, body } = await untilAborted(ask(session, service), over);
    if (status === unimplemented)
      return "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)";
    if (status !== "0") return `error: health rpc probe failed: code = ${status ?? "none"}`;
    const health = healthOf(body);
    if (health === serving) return undefined;
    return `service unhealthy (responded with "${servingStatuses[health] ?? health}")`;
  } finally {
    session.destroy();
  }
}

async function ask(
  session: http2.ClientHttp2Session,
  service: string,
): Promise<{ readonly status: string | undefined; readonly body: Buffer }> {
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.health.v1.Health/Check",
    "content-type": "application/grpc",
    "user-agent": "kube-probe/1.34",
    te: "trailers",
  });
  // An answer without a body has its status among the headers.
  let status: string | undefined;
  const note = (headers: http2.IncomingHttpHeaders): void => {
    const value = headers["grpc-status"];
    if (typeof value === "string") status = value;
  };
  stream.on("response", note).on("trailers", note);
  stream.end(request(service));
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of bytesOf(stream)) {
    size += part.length;
    if (size > maxAnswerBytes) throw new Error("the answer to a health rpc is too long");
    parts.push(part);
  }
  return { status, body: Buffer.concat(parts) };
}

/** A message of gRPC (5 bytes of length, not compressed) with a HealthCheckRequest: its field 1 is the service's name. */
function request(service: string): Buffer {
  const name = Buffer.from(service);
  const message =
    name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a), varint(name.length), name]);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** The answer's field 1; 0, which stands for itself by being left out, if there is none. */
function healthOf(body: Buffer): number {
  const [compressed, , , , length = 0, tag, value = 0] = body;
  return compressed === 0 && length >= 2 && tag === 0x08 ? value : 0;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 128))
    bytes.push((rest % 128) + (rest >= 128 ? 128 : 0));
  return Buffer.from(bytes);
}
