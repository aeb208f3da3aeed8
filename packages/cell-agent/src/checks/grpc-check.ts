import http2 from "node:http2";
import { bytesOf, errorText, isSystemError, untilAborted } from "@kip/base";

/** Health statuses by number: grpc.health.v1.HealthCheckResponse.ServingStatus. */
const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;
const serving = 1;
/** gRPC status codes by number, as spelled by its Go library. */
const codes =
  "OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable DataLoss Unauthenticated".split(
    " ",
  );
/** Maximum size of a response, bytes. A valid one has about ten. */
const maxAnswerBytes = 16 * 1024;
/** Maximum length of a status message, characters. */
const maxMessage = 1024;

/**
 * Asks a gRPC server for the health of a service, without TLS like the kubelet.
 *
 * @param limit the time after which the signal aborts, as text
 * @returns undefined if the service is healthy, otherwise the problem in the kubelet's words
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export async function askGrpcHealth(
  options: { readonly host: string; readonly port: number; readonly service: string },
  signal: AbortSignal,
  limit: string,
): Promise<string | undefined> {
  const { host, port, service } = options;
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const session = http2.connect(`http://${address}`);
  const lost = new AbortController();
  session.on("error", (error) => lost.abort(error));
  try {
    signal.throwIfAborted();
    const over = AbortSignal.any([signal, lost.signal]);
    const { status, message, body } = await untilAborted(ask(session, service), over);
    const code = codes[Number(status)] ?? "Unknown";
    if (code === "Unimplemented")
      return `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${message}`;
    if (code !== "OK")
      return `error: health rpc probe failed: rpc error: code = ${code} desc = ${message}`;
    const health = healthOf(body);
    if (health === serving) return undefined;
    return `service unhealthy (responded with "${servingStatuses[health] ?? health}")`;
  } catch (error) {
    // A kubelet retries the connection until then.
    if (session.connecting || isRefused(error))
      return `timeout: failed to connect service "${address}" within ${limit}: context deadline exceeded`;
    if (signal.aborted) return `timeout: health rpc did not complete within ${limit}`;
    return `error: health rpc probe failed: ${errorText(error)}`;
  } finally {
    session.destroy();
  }
}

function isRefused(error: unknown): boolean {
  return isSystemError(error, "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT");
}

async function ask(
  session: http2.ClientHttp2Session,
  service: string,
): Promise<{ readonly status: string; readonly message: string; readonly body: Buffer }> {
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.health.v1.Health/Check",
    "content-type": "application/grpc",
    "user-agent": "kube-probe/1.34",
    te: "trailers",
  });
  // A response without a body has its status among the headers.
  let status = "";
  let message = "";
  const note = (headers: http2.IncomingHttpHeaders): void => {
    const { "grpc-status": code, "grpc-message": text } = headers;
    if (typeof code === "string") status = code;
    if (typeof text === "string") message = decoded(text.slice(0, maxMessage));
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
  return { status: status || "2", message, body: Buffer.concat(parts) };
}

/** Decodes text in a gRPC header, in which non-ASCII bytes are percent-encoded. */
function decoded(text: string): string {
  return text.replace(/(?:%[\da-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll("%", ""), "hex").toString(),
  );
}

/** An uncompressed gRPC message (5 bytes of header) with a HealthCheckRequest, whose field 1 is the service's name. */
function request(service: string): Buffer {
  const name = Buffer.from(service);
  const message =
    name.length === 0 ? name : Buffer.concat([Buffer.of(0x0a), varint(name.length), name]);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** The response's field 1. It is omitted if it is 0. */
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
