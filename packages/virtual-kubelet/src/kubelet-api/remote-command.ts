import type { Duplex } from "node:stream";
import { finished } from "node:stream/promises";
import { errorText, pause, type Clock, type Logger, type ProcessStreams } from "@kip/base";
import { VirtualKubeletError } from "../errors.ts";
import type { ProcessExit } from "../pod-provider.ts";
import { outcomeStatus, outcomeText, type CommandOutcome } from "./exit-status.ts";
import type {
  RemoteCommandDialect,
  RemoteCommandStreams,
  RemoteStream,
  RemoteStreams,
} from "./transport/remote-streams.ts";
import { terminalResizes } from "./terminal-resizes.ts";

/** Versions of the exec and attach protocol over SPDY, newest first. */
export const remoteCommandProtocols = [
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
] as const;

/** The dialect of one of {@link remoteCommandProtocols}. */
export function spdyDialect(protocol: string): RemoteCommandDialect {
  return { hasJsonStatus: protocol.startsWith("v4."), hasResizes: /^v[34]\./.test(protocol) };
}

/** An exec or attach request that is ready to be served. */
export interface RemoteCommand {
  readonly remote: RemoteStreams;
  readonly dialect: RemoteCommandDialect;
  readonly wanted: RemoteCommandStreams;
  /** Time for the client to open its streams, milliseconds. */
  readonly creationTimeoutMs: number;
  /** Runs the command, or attaches to it. Like in the kubelet, the client gets the exit code of exec but not that of attach. */
  readonly run: (streams: ProcessStreams, signal: AbortSignal) => Promise<ProcessExit>;
  readonly reportsExitCode: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Serves one exec or attach: waits for the client's streams, runs the command with them, and sends the command's outcome after
 * all output. Never rejects. The command's signal aborts if the client disconnects before the command ends, and never
 * afterwards.
 */
export async function serveRemoteCommand(command: RemoteCommand): Promise<void> {
  const { remote, logger } = command;
  const streams = await collectStreams(command);
  if (streams === undefined) {
    logger.debug("Refused a client that did not open its streams in time");
    return await remote.close();
  }
  // The client sends nothing on these streams except their end.
  for (const name of ["stdout", "stderr", "error"]) streams.get(name)?.resume();
  const { outcome, hasLeft } = await runCommand(command, streams);
  if (hasLeft) return await remote.close();
  await Promise.all(["stdout", "stderr"].map((name) => flush(streams.get(name))));
  const error = streams.get("error");
  const text = command.dialect.hasJsonStatus
    ? JSON.stringify(outcomeStatus(outcome))
    : outcomeText(outcome);
  if (text !== "") error?.write(text);
  await flush(error);
  await remote.close();
}

interface Ended {
  readonly outcome: CommandOutcome;
  /** Whether the client disconnected before the command ended. */
  readonly hasLeft: boolean;
}

async function runCommand(
  command: RemoteCommand,
  streams: ReadonlyMap<string, Duplex>,
): Promise<Ended> {
  const client = watchClient(command.remote, streams);
  const { run, reportsExitCode, wanted, logger } = command;
  try {
    const { exitCode } = await run(processStreams(wanted.tty, streams), client.left);
    const isSuccess = exitCode === 0 || !reportsExitCode;
    const outcome = isSuccess ? success : ({ kind: "exit", exitCode } as const);
    return { outcome, hasLeft: client.left.aborted };
  } catch (error) {
    const hasLeft = client.left.aborted;
    if (!hasLeft) logger.warn("A remote command failed", { err: error });
    const action = reportsExitCode ? "executing command in" : "attaching to";
    const message = `error ${action} container: ${errorText(error)}`;
    return { outcome: { kind: "failure", message }, hasLeft };
  } finally {
    client.stop();
  }
}

const success = { kind: "success" } as const;

function processStreams(tty: boolean, streams: ReadonlyMap<string, Duplex>): ProcessStreams {
  const [stdin, stdout, stderr] = ["stdin", "stdout", "stderr"].map((name) => streams.get(name));
  const resize = streams.get("resize");
  return { tty, stdin, stdout, stderr, resizes: resize && terminalResizes(resize) };
}

/**
 * A signal that aborts when the client disconnects. Go's client resets its streams before it closes the connection. The signal
 * aborts at the first reset, before a read or write can fail.
 */
function watchClient(
  remote: RemoteStreams,
  streams: ReadonlyMap<string, Duplex>,
): { readonly left: AbortSignal; stop(): void } {
  const left = new AbortController();
  const leave = (): void => left.abort(new Error("The client closed the connection"));
  const onError = (error: unknown): void => {
    if (VirtualKubeletError.is(error, "VK_STREAM_RESET")) leave();
  };
  for (const stream of streams.values()) stream.once("error", onError);
  if (remote.gone.aborted) leave();
  remote.gone.addEventListener("abort", leave, { once: true });
  return {
    left: left.signal,
    stop: () => {
      for (const stream of streams.values()) stream.off("error", onError);
      remote.gone.removeEventListener("abort", leave);
    },
  };
}

/** The streams by type. Undefined if the client does not open all of them in time. */
async function collectStreams(
  command: RemoteCommand,
): Promise<ReadonlyMap<string, Duplex> | undefined> {
  const expected = expectedStreams(command);
  const streams = new Map<string, Duplex>();
  const complete = Promise.withResolvers<boolean>();
  const stopWaiting = new AbortController();
  // Continues after the last expected stream, to reject streams that the client opens later.
  const reading = (async () => {
    for await (const stream of command.remote.opened) {
      takeStream(stream, expected, streams);
      if (expected.size === 0) complete.resolve(true);
    }
    complete.resolve(false);
  })();
  reading.catch(() => complete.resolve(false));
  void pause(command.creationTimeoutMs, command.clock, stopWaiting.signal).then((isOver) => {
    if (isOver) complete.resolve(false);
  });
  const isComplete = await complete.promise;
  stopWaiting.abort();
  return isComplete ? streams : undefined;
}

function expectedStreams({ wanted, dialect }: RemoteCommand): Set<string> {
  const expected = new Set(["error"]);
  if (wanted.stdin) expected.add("stdin");
  if (wanted.stdout) expected.add("stdout");
  if (wanted.stderr) expected.add("stderr");
  if (wanted.tty && dialect.hasResizes) expected.add("resize");
  return expected;
}

function takeStream(
  stream: RemoteStream,
  expected: Set<string>,
  streams: Map<string, Duplex>,
): void {
  const type = stream.headers.get("streamtype")?.toLowerCase() ?? "";
  if (!expected.delete(type)) return stream.reject();
  streams.set(type, stream.duplex);
  stream.accept();
}

/** Ends a stream and waits until its last byte is handed over. Also returns if the stream fails. */
async function flush(stream: Duplex | undefined): Promise<void> {
  if (stream === undefined || stream.destroyed) return;
  stream.end();
  await finished(stream, { readable: false }).catch(() => {});
}
