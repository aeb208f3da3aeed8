import net from "node:net";
import { networkInterfaces } from "node:os";
import { Writable } from "node:stream";
import type { DesiredHook, DesiredPod, DesiredProbe } from "@kip/agent-api";
import { errorText, pause, systemClock, type ProcessStreams } from "@kip/base";
import type { ContainerRuntime } from "@kip/oci-runtime";
import { askGrpcHealth } from "./grpc-check.ts";
import { askHttp, hostAndPort } from "./http-check.ts";
import { goDuration } from "../state/go-duration.ts";
import type { PodEvents } from "../state/pod-events.ts";
import { networkText } from "./network-text.ts";

/** The result of a probe or hook. */
export interface CheckResult {
  readonly isSuccess: boolean;
  /** The problem, in the kubelet's words. */
  readonly output: string;
  /** Status of an HTTP response. */
  readonly status?: number;
  /** Set if the check could not be run, which says nothing about the container. The kubelet's name for the state. */
  readonly errorState?: "unknown" | "failure";
  /** Whether the peer of an HTTPS request does not use TLS. */
  readonly isNoTls?: boolean;
  /** Whether it succeeded with a warning. */
  readonly isWarning?: boolean;
}

/** An action of a probe or a hook. */
export type Check = Pick<DesiredProbe, "exec" | "httpGet" | "tcpSocket" | "grpc"> &
  Pick<DesiredHook, "sleepSeconds">;

/** The container to check. */
export interface CheckTarget {
  readonly runtime: Pick<ContainerRuntime, "exec">;
  readonly containerId: string;
  /** Address of the pod. */
  readonly address: string;
}

const maxOutput = 10 * 1024;

/** Options of {@link runCheck}. */
export interface CheckOptions {
  /** @default "probe" */
  readonly purpose?: "probe" | "lifecycle";
  /** The caller's time limit for messages, milliseconds. @default none */
  readonly limitMs?: number;
  /** Called when a command's process has started. */
  readonly onBegun?: () => void;
}

/** Runs the action of a probe or hook once. Never throws. If the signal aborts, the result is a failure. */
export async function runCheck(
  check: Check,
  target: CheckTarget,
  signal: AbortSignal,
  options: CheckOptions = {},
): Promise<CheckResult> {
  const { purpose = "probe" } = options;
  try {
    if (check.exec) return await runExec(check.exec.command, target, signal, options);
    checkPort(check.httpGet ?? check.tcpSocket);
    if (check.httpGet) return await askHttp(check.httpGet, target.address, signal, purpose);
    if (check.tcpSocket) {
      const { host, port } = check.tcpSocket;
      return await runTcp(host ?? target.address, port, signal);
    }
    if (check.grpc) return await runGrpc(check.grpc, target, signal, options);
    if (check.sleepSeconds !== undefined) return await runSleep(check.sleepSeconds, signal);
    return { isSuccess: false, output: "invalid handler", errorState: "unknown" };
  } catch (error) {
    return { isSuccess: false, output: errorText(error), errorState: "unknown" };
  }
}

/**
 * Runs a hook. As in the kubelet, an HTTP hook has succeeded if there was a response, whatever its status. An HTTPS hook whose
 * server uses plain HTTP is repeated by HTTP without the header `Authorization`. If that got a response, an event reports it.
 */
export async function runHook(
  hook: DesiredHook,
  target: CheckTarget,
  signal: AbortSignal,
  events: Pick<PodEvents, "warning">,
): Promise<CheckResult> {
  const result = await runCheck(hook, target, signal, { purpose: "lifecycle" });
  if (result.status !== undefined) return { ...result, isSuccess: true };
  const { httpGet } = hook;
  if (httpGet?.scheme !== "HTTPS" || !result.isNoTls) return result;
  const headers = httpGet.headers?.filter(({ name }) => name.toLowerCase() !== "authorization");
  const plain = { httpGet: { ...httpGet, scheme: "HTTP" as const, headers } };
  const second = await runCheck(plain, target, signal, { purpose: "lifecycle" });
  if (second.status === undefined) return result;
  const where = hostAndPort(httpGet.host ?? target.address, httpGet.port);
  const what = `request to HTTPS lifecycle hook ${where} got HTTP response`;
  events.warning("LifecycleHTTPFallback", `${what}, retry with HTTP succeeded`);
  return { ...second, isSuccess: true };
}

/**
 * Checks a port with the kubelet's messages, which treat an unknown port name as a number. HTTP would take 0 for the default
 * port of its scheme.
 */
function checkPort(
  target: { readonly port: number; readonly portName?: string | undefined } | undefined,
): void {
  if (target?.port !== 0) return;
  const { port, portName } = target;
  throw new RangeError(
    portName === undefined
      ? `invalid port number: ${port}`
      : `strconv.Atoi: parsing ${JSON.stringify(portName)}: invalid syntax`,
  );
}

/** The address at which probes reach a pod. */
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
  { limitMs = 0, onBegun }: CheckOptions,
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
      { command, isUrgent: true, onBegun },
      streams,
      signal,
    );
    const output = Buffer.concat(parts).subarray(0, maxOutput).toString();
    return { isSuccess: exitCode === 0, output };
  } catch (error) {
    if (!signal.aborted) throw error;
    const text = `${JSON.stringify(command.join(" "))} timed out after ${goDuration(limitMs)}`;
    return { isSuccess: false, output: `command timed out: ${text}` };
  }
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
  { limitMs = 0 }: CheckOptions,
): Promise<CheckResult> {
  const problem = await askGrpcHealth({ host, port, service }, signal, goDuration(limitMs));
  return { isSuccess: problem === undefined, output: problem ?? "" };
}

async function runSleep(seconds: number, signal: AbortSignal): Promise<CheckResult> {
  await pause(seconds * 1000, systemClock, signal); // a hook that is cut short has not failed
  return { isSuccess: true, output: "" };
}
