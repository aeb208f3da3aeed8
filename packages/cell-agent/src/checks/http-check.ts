import http from "node:http";
import https from "node:https";
import type { DesiredProbe } from "@kip/agent-api";
import type { CheckResult } from "./handlers.ts";
import { networkText } from "./network-text.ts";

type HttpGet = NonNullable<DesiredProbe["httpGet"]>;

interface Answer {
  readonly status: number;
  readonly location: string | undefined;
  /** Begin of the body; only of an answer 3xx. */
  readonly body: string;
}

const maxBody = 10 * 1024;
const maxRedirects = 10;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Asks an HTTP server once. Redirects are followed as long as they lead to the same host; one that leads elsewhere is a success with a
 * warning, as in the kubelet.
 *
 * @param address of the pod
 */
export async function askHttp(
  get: HttpGet,
  address: string,
  signal: AbortSignal,
): Promise<CheckResult> {
  const scheme = (get.scheme ?? "HTTP").toLowerCase();
  const host = get.host ?? address;
  const path = get.path.startsWith("/") ? get.path : `/${get.path}`;
  const first = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${get.port}${path}`;
  let url = first;
  try {
    for (let count = 0; ; count++) {
      const answer = await ask(url, get.headers, signal);
      const next = redirects.has(answer.status) ? redirected(answer, url) : undefined;
      if (next === undefined || new URL(next).hostname !== new URL(first).hostname)
        return verdict(answer);
      if (count === maxRedirects) throw new Error(`stopped after ${maxRedirects} redirects`);
      url = next;
    }
  } catch (error) {
    return { isSuccess: false, output: `Get "${url}": ${networkText(error, signal)}` };
  }
}

/** Where a redirect leads; undefined for one that leads nowhere. */
function redirected({ location }: Answer, from: string): string | undefined {
  if (location === undefined || !URL.canParse(location, from)) return undefined;
  const { protocol, href } = new URL(location, from);
  return protocol === "http:" || protocol === "https:" ? href : undefined;
}

function verdict({ status, body }: Answer): CheckResult {
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

async function ask(url: string, headers: HttpGet["headers"], signal: AbortSignal): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  // A probe asks whether the program answers, not who it is: its certificate is not looked at.
  const options = { headers: requestHeaders(headers), signal, agent: false as const };
  const request = url.startsWith("https:")
    ? https.request(url, { ...options, rejectUnauthorized: false })
    : http.request(url, options);
  request.on("error", reject);
  request.on("response", (response) => void answerOf(response).then(resolve, reject));
  // Without this listener an answer 101 would end the request without any event but "close".
  request.on("upgrade", (response, socket) => {
    resolve({ status: response.statusCode ?? 0, location: undefined, body: "" });
    socket.destroy();
  });
  request.on("close", () => reject(new Error("unexpected EOF"))); // without effect once it is settled
  request.end();
  return await promise;
}

async function answerOf(response: http.IncomingMessage): Promise<Answer> {
  const status = response.statusCode ?? 0;
  const { location } = response.headers;
  const parts: Buffer[] = [];
  let size = 0;
  if (status >= 300 && status < 400) {
    for await (const part of response as AsyncIterable<Buffer>) {
      parts.push(part);
      size += part.length;
      if (size >= maxBody) break;
    }
  }
  response.destroy();
  return { status, location, body: Buffer.concat(parts).subarray(0, maxBody).toString() };
}

/** A name that is there several times is sent as often. An own value, even none, replaces the kubelet's. */
function requestHeaders(own: HttpGet["headers"] = []): http.OutgoingHttpHeaders {
  const headers = new Map<string, string | string[]>([["connection", "close"]]);
  const values = Map.groupBy(own, ({ name }) => name.toLowerCase());
  for (const [name, list] of values) {
    const texts = list.map(({ value }) => value);
    headers.set(name, name === "host" ? (texts[0] ?? "") : texts);
  }
  const defaults = { "user-agent": "kube-probe/1.34", accept: "*/*" };
  for (const [name, value] of Object.entries(defaults)) {
    if (!headers.has(name)) headers.set(name, value);
    else if (values.get(name)?.[0]?.value === "") headers.delete(name);
  }
  return Object.fromEntries(headers);
}
