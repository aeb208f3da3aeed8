import http from "node:http";
import https from "node:https";
import type { DesiredProbe } from "@kip/agent-api";
import { errorText, textBefore } from "@kip/base";
import type { CheckResult } from "./handlers.ts";
import { networkText } from "./network-text.ts";

type HttpGet = NonNullable<DesiredProbe["httpGet"]>;

interface Answer {
  readonly status: number;
  readonly location: string | undefined;
  /** The beginning of the body. */
  readonly body: string;
  /** Why the body was neither read to its end nor to the limit. */
  readonly bodyError?: unknown;
}

/** How much of a body is read, bytes. The kubelet's limit. */
const maxBody = 10 * 1024;
/** Maximum size of the headers. Go's client accepts 10 MiB, which a container could make an agent store. */
const maxHeaderSize = 1024 * 1024;
/** Maximum number of requests, as in Go's client. */
const maxRequests = 10;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Sends an HTTP request. Follows redirects within the same host. As in the kubelet, one to another host is a success with a
 * warning.
 *
 * @param address address of the pod
 * @param purpose part of the user agent header
 */
export async function askHttp(
  get: HttpGet,
  address: string,
  signal: AbortSignal,
  purpose: "probe" | "lifecycle" = "probe",
): Promise<CheckResult> {
  const scheme = (get.scheme ?? "HTTP").toLowerCase();
  const host = get.host ?? address;
  const path = requestPath(get.path);
  const first = `${scheme}://${hostAndPort(host, get.port)}${path}`;
  const headers = requestHeaders(get.headers, purpose);
  let url = first;
  try {
    for (let count = 1; ; count++) {
      const answer = await ask(url, headers, { signal, path: count === 1 ? path : undefined });
      const next = redirects.has(answer.status) ? redirected(answer, url) : undefined;
      if (next === undefined || new URL(next).hostname !== new URL(first).hostname)
        return verdict(answer, signal);
      url = answer.location ?? next;
      if (count === maxRequests) throw new Error(`stopped after ${maxRequests} redirects`);
      url = next;
    }
  } catch (error) {
    if (error instanceof LocationError) return { isSuccess: false, output: error.message };
    const output = `Get "${url}": ${networkText(error, signal)}`;
    return { isSuccess: false, output, ...(isNoTls(error) && { isNoTls: true }) };
  }
}

/** Host and port in URL syntax. */
export function hostAndPort(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Whether the first bytes from the peer were not TLS, like those of an HTTP server that got a TLS handshake. */
function isNoTls(error: unknown): boolean {
  return /wrong version number/i.test(errorText(error));
}

class LocationError extends Error {}

/**
 * The path as Go's client requests it: dots are kept, and invalid characters are encoded. Text with an invalid escape is not
 * parsed as a URL, but used as the path.
 */
function requestPath(text: string): string {
  const [plain = "", query] = textBefore(text, "#").split(/\?(.*)/s, 2);
  const isUrl = !/%(?![\da-f]{2})/i.test(plain);
  const path = isUrl
    ? encoded(plain, /[^\w!$&'()*+,\-./:;=@[\]~%]+/g)
    : encoded(text, /[^\w$&+,\-./:;=@~]+/g);
  const asked = isUrl && query !== undefined ? `?${encoded(query, /[^\u0021-\u007e]+/g)}` : "";
  return `${path.startsWith("/") ? "" : "/"}${path}${asked}`;
}

function encoded(text: string, unsafe: RegExp): string {
  const code = (byte: number): string => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return text.replace(unsafe, (found) => [...Buffer.from(found)].map(code).join(""));
}

/** The target of a redirect. Undefined if it has none. @throws {LocationError} if it is not valid */
function redirected({ location }: Answer, from: string): string | undefined {
  if (location === undefined) return undefined;
  if (!URL.canParse(location, from))
    throw new LocationError(`failed to parse Location header "${location}": invalid URL`);
  const { protocol, href } = new URL(location, from);
  return protocol === "http:" || protocol === "https:" ? href : undefined;
}

function verdict({ status, body, bodyError }: Answer, signal: AbortSignal): CheckResult {
  if (bodyError !== undefined) {
    const late =
      "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    const output = signal.aborted ? late : networkText(bodyError, signal);
    return { isSuccess: false, output, status, errorState: "failure" };
  }
  if (status >= 300 && status < 400) {
    const output = `Probe terminated redirects, Response body: ${body}`;
    return { isSuccess: true, output, status, isWarning: true };
  }
  const isSuccess = status >= 200 && status < 300;
  return {
    isSuccess,
    output: isSuccess ? "" : `HTTP probe failed with statuscode: ${status}`,
    status,
  };
}

async function ask(
  url: string,
  headers: http.OutgoingHttpHeaders,
  { signal, path }: { readonly signal: AbortSignal; readonly path: string | undefined },
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  // A probe checks whether the program responds, not who it is. So its certificate is not verified.
  const own = path === undefined ? {} : { path };
  const options = {
    headers,
    signal,
    agent: false as const,
    maxHeaderSize,
    // Like Go, accept lines that end without a carriage return, as scripts write them. There is only one response per
    // connection.
    insecureHTTPParser: true,
    ...own,
  };
  const request = url.startsWith("https:")
    ? https.request(url, { ...options, rejectUnauthorized: false })
    : http.request(url, options);
  request.on("error", reject);
  // From here on, an error belongs to the body.
  request.on("response", (response) => resolve(answerOf(response)));
  // Without this listener, a response with status 101 would end the request with only the event "close".
  request.on("upgrade", (response, socket) => {
    resolve({ status: response.statusCode ?? 0, location: undefined, body: "" });
    socket.destroy();
  });
  request.on("close", () => reject(new Error("unexpected EOF"))); // no effect if it is already settled
  request.end();
  return await promise;
}

async function answerOf(response: http.IncomingMessage): Promise<Answer> {
  const status = response.statusCode ?? 0;
  const { location } = response.headers;
  const parts: Buffer[] = [];
  let size = 0;
  let bodyError: unknown;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      parts.push(part);
      size += part.length;
      if (size >= maxBody) break;
    }
  } catch (error) {
    bodyError = error;
  }
  response.destroy();
  const body = Buffer.concat(parts).subarray(0, maxBody).toString();
  return { status, location, body, bodyError };
}

/** A header that is listed several times is sent as often. A header of the probe, even an empty one, replaces the kubelet's. */
function requestHeaders(own: HttpGet["headers"] = [], purpose: string): http.OutgoingHttpHeaders {
  const headers = new Map<string, string | string[]>([["connection", "close"]]);
  const values = Map.groupBy(own, ({ name }) => name.toLowerCase());
  for (const [name, list] of values) {
    const texts = list.map(({ value }) => value);
    headers.set(name, name === "host" ? (texts[0] ?? "") : texts);
  }
  const defaults = { "user-agent": `kube-${purpose}/1.34`, accept: "*/*" };
  for (const [name, value] of Object.entries(defaults)) {
    if (!headers.has(name)) headers.set(name, value);
    else if (values.get(name)?.[0]?.value === "") headers.delete(name);
  }
  return Object.fromEntries(headers);
}
