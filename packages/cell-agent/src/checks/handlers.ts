import http from "node:http";
import https from "node:https";
import net from "node:net";
import { networkInterfaces } from "node:os";
import { Writable } from "node:stream";
import type { DesiredHook, DesiredPod, DesiredProbe } from "@kip/agent-api";
import { errorText, pause, systemClock, type ProcessStreams } from "@kip/base";
import type { ContainerRuntime } from "@kip/oci-runtime";
import { askGrpcHealth } from "./grpc-check.ts";

/** How a probe or hook went. */
export interface CheckResult {
  readonly isSuccess: boolean;
  /** What went wrong, in the kubelet's words. */
  readonly output: string;
  /** Of an answer by HTTP. */
  readonly status?: number;
}

/** An action on a container, of a probe or a hook. */
export type Check = Pick<DesiredProbe, "exec" | "httpGet" | "tcpSocket" | "grpc"> &
  Pick<DesiredHook, "sleepSeconds">;

/** The container that a check is made of. */
export interface CheckTarget {
  readonly runtime: Pick<ContainerRuntime, "exec">;
  readonly containerId: string;
  /** Address of the pod. */
  readonly address: string;
}

type HttpGet = NonNullable<DesiredProbe["httpGet"]>;

const maxOutput = 10 * 1024;

/** Runs a probe's or hook's action once. Never fails; an abort of the signal is a failed result. */
export async function runCheck(
  check: Check,
  target: CheckTarget,
  signal: AbortSignal,
): Promise<CheckResult> {
  try {
    if (check.exec) return await runExec(check.exec.command, target, signal);
    if (check.httpGet) return await runHttp(check.httpGet, target, signal);
    if (check.tcpSocket) {
      const { host, port } = check.tcpSocket;
      return await runTcp(host ?? target.address, port, signal);
    }
    if (check.grpc) return await runGrpc(check.grpc, target, signal);
    if (check.sleepSeconds !== undefined) return await runSleep(check.sleepSeconds, signal);
    return { isSuccess: false, output: "invalid handler" };
  } catch (error) {
    return { isSuccess: false, output: errorText(error) };
  }
}

/** Runs a hook. To the kubelet one by HTTP has done its work when it was answered, whatever the status. */
export async function runHook(
  hook: DesiredHook,
  target: CheckTarget,
  signal: AbortSignal,
): Promise<CheckResult> {
  const result = await runCheck(hook, target, signal);
  return result.status === undefined ? result : { ...result, isSuccess: true };
}

/** The address at which probes find a pod. */
export function podAddress(pod: DesiredPod): string {
  if (pod.podIp !== undefined) return pod.podIp;
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const own = all.find((one) => !one.internal && one.family === "IPv4");
  return own?.address ?? "127.0.0.1";
}

async function runExec(
  command: readonly string[],
  target: CheckTarget,
  signal: AbortSignal,
): Promise<CheckResult> {
  const parts: Buffer[] = [];
  let size = 0;
  const collect = (): Writable =>
    new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (size < maxOutput) parts.push(chunk);
        size += chunk.length;
        done();
      },
    });
  const streams: ProcessStreams = { tty: false, stdout: collect(), stderr: collect() };
  try {
    const { exitCode } = await target.runtime.exec(
      target.containerId,
      { command },
      streams,
      signal,
    );
    const output = Buffer.concat(parts).subarray(0, maxOutput).toString();
    return { isSuccess: exitCode === 0, output };
  } catch (error) {
    if (!signal.aborted) throw error;
    return { isSuccess: false, output: `command "${command.join(" ")}" timed out` };
  }
}

async function runHttp(
  get: HttpGet,
  target: CheckTarget,
  signal: AbortSignal,
): Promise<CheckResult> {
  const scheme = (get.scheme ?? "HTTP").toLowerCase();
  const host = get.host ?? target.address;
  const path = get.path.startsWith("/") ? get.path : `/${get.path}`;
  const url = `${scheme}://${host.includes(":") ? `[${host}]` : host}:${get.port}${path}`;
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  // A probe asks whether the program answers, not who it is: its certificate is not looked at.
  const options = {
    headers: requestHeaders(get.headers),
    signal,
    agent: false as const,
  };
  const request =
    scheme === "https"
      ? https.request(url, { ...options, rejectUnauthorized: false })
      : http.request(url, options);
  request.on("error", reject);
  request.on("response", (response) => {
    resolve(response.statusCode ?? 0);
    response.destroy();
  });
  // Without this listener an answer 101 would end the request without any event but "close".
  request.on("upgrade", (response, socket) => {
    resolve(response.statusCode ?? 0);
    socket.destroy();
  });
  request.on("close", () => reject(new Error("unexpected EOF"))); // without effect once it is settled
  request.end();
  try {
    const status = await promise;
    const isSuccess = status >= 200 && status < 400;
    const output = isSuccess ? "" : `HTTP probe failed with statuscode: ${status}`;
    return { isSuccess, output, status };
  } catch (error) {
    return { isSuccess: false, output: `Get "${url}": ${networkText(error, signal)}` };
  }
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

async function runTcp(host: string, port: number, signal: AbortSignal): Promise<CheckResult> {
  const socket = net.connect({ host, port, signal });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return { isSuccess: true, output: "" };
  } catch (error) {
    return { isSuccess: false, output: networkText(error, signal, `dial tcp ${host}:${port}`) };
  } finally {
    socket.destroy();
  }
}

async function runGrpc(
  { port, service = "" }: NonNullable<DesiredProbe["grpc"]>,
  { address: host }: CheckTarget,
  signal: AbortSignal,
): Promise<CheckResult> {
  try {
    const problem = await askGrpcHealth({ host, port, service }, signal);
    return { isSuccess: problem === undefined, output: problem ?? "" };
  } catch (error) {
    const why = networkText(error, signal, `dial tcp ${host}:${port}`);
    return { isSuccess: false, output: `error: health rpc probe failed: ${why}` };
  }
}

async function runSleep(seconds: number, signal: AbortSignal): Promise<CheckResult> {
  await pause(seconds * 1000, systemClock, signal); // a hook that is cut short has not failed
  return { isSuccess: true, output: "" };
}

function networkText(error: unknown, signal: AbortSignal, prefix?: string): string {
  if (signal.aborted)
    return prefix === undefined
      ? "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
      : `${prefix}: i/o timeout`;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const where =
    error instanceof Error && "address" in error && "port" in error
      ? `dial tcp ${String(error.address)}:${String(error.port)}`
      : (prefix ?? "");
  const words: Readonly<Record<string, string>> = {
    ECONNREFUSED: "connect: connection refused",
    EHOSTUNREACH: "connect: no route to host",
    ECONNRESET: "read: connection reset by peer",
  };
  const text = words[code] ?? errorText(error);
  return where === "" ? text : `${where}: ${text}`;
}
