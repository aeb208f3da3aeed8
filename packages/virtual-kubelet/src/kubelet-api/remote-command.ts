import type { Duplex } from "node:stream";
import { finished } from "node:stream/promises";
import { errorText, type Clock, type Logger, type ProcessStreams } from "@kip/base";
import type { ProcessExit } from "../pod-provider.ts";
import { outcomeStatus, outcomeText, type CommandOutcome } from "./exit-status.ts";
import type { RemoteStream, RemoteStreams } from "./remote-streams.ts";
import { terminalResizes } from "./terminal-resizes.ts";

/** Versions of the exec and attach protocol, newest first. */
export const remoteCommandProtocols = [
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
] as const;

/** What the client asked to be connected to. */
export interface RemoteCommandStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** One exec or attach, ready to be served. */
export interface RemoteCommand {
  readonly remote: RemoteStreams;
  /** One of {@link remoteCommandProtocols}. */
  readonly protocol: string;
  readonly wanted: RemoteCommandStreams;
  /** Milliseconds the client has to open its streams. */
  readonly creationTimeoutMs: number;
  /** Runs or attaches; the kubelet passes the exit code of exec on, and that of attach not. */
  readonly run: (streams: ProcessStreams, signal: AbortSignal) => Promise<ProcessExit>;
  readonly reportsExitCode: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Serves one exec or attach: waits for the client's streams, runs the command between them, and
 * sends its outcome when all output is on its way. Never rejects. The command's signal aborts if the
 * client leaves before the command ends, and never after.
 */
export async function serveRemoteCommand(command: RemoteCommand): Promise<void> {
  const { remote, logger } = command;
  const streams = await collectStreams(command);
  if (streams === undefined) {
    logger.debug("client did not open its streams in time");
    return await remote.close();
  }
  // Their client-to-server direction carries nothing but its end.
  for (const name of ["stdout", "stderr", "error"]) streams.get(name)?.resume();
  const outcome = await runCommand(command, streams);
  if (remote.gone.aborted) return;
  await Promise.all(["stdout", "stderr"].map((name) => flush(streams.get(name))));
  const error = streams.get("error");
  const text = command.protocol.startsWith("v4.")
    ? JSON.stringify(outcomeStatus(outcome))
    : outcomeText(outcome);
  if (text !== "") error?.write(text);
  await flush(error);
  await remote.close();
}

async function runCommand(
  command: RemoteCommand,
  streams: ReadonlyMap<string, Duplex>,
): Promise<CommandOutcome> {
  const [stdin, stdout, stderr] = ["stdin", "stdout", "stderr"].map((name) => streams.get(name));
  const resize = streams.get("resize");
  const process: ProcessStreams = {
    tty: command.wanted.tty,
    ...(stdin && { stdin }),
    ...(stdout && { stdout }),
    ...(stderr && { stderr }),
    ...(resize && { resizes: terminalResizes(resize) }),
  };
  try {
    const { exitCode } = await command.run(process, command.remote.gone);
    if (exitCode === 0 || !command.reportsExitCode) return { kind: "success" };
    return { kind: "exit", exitCode };
  } catch (error) {
    const action = command.reportsExitCode ? "executing command in" : "attaching to";
    const message = `error ${action} container: ${errorText(error)}`;
    if (!command.remote.gone.aborted) command.logger.warn("remote command failed", { err: error });
    return { kind: "failure", message };
  }
}

/** The streams by type; undefined if the client does not open them all in time. */
async function collectStreams(
  command: RemoteCommand,
): Promise<ReadonlyMap<string, Duplex> | undefined> {
  const expected = expectedStreams(command);
  const streams = new Map<string, Duplex>();
  const complete = Promise.withResolvers<boolean>();
  const stopWaiting = new AbortController();
  // Goes on after the last expected stream, to reject what a client opens later.
  const reading = (async () => {
    for await (const stream of command.remote.opened) {
      takeStream(stream, expected, streams);
      if (expected.size === 0) complete.resolve(true);
    }
    complete.resolve(false);
  })();
  reading.catch(() => complete.resolve(false));
  const timeout = command.clock.sleep(command.creationTimeoutMs, stopWaiting.signal);
  timeout.then(
    () => complete.resolve(false),
    () => {},
  );
  const isComplete = await complete.promise;
  stopWaiting.abort();
  return isComplete ? streams : undefined;
}

function expectedStreams({ wanted, protocol }: RemoteCommand): Set<string> {
  const expected = new Set(["error"]);
  if (wanted.stdin) expected.add("stdin");
  if (wanted.stdout) expected.add("stdout");
  if (wanted.stderr) expected.add("stderr");
  if (wanted.tty && /^v[34]\./.test(protocol)) expected.add("resize");
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

/** Ends a stream and waits until its last byte was handed over; a stream that broke is as good as done. */
async function flush(stream: Duplex | undefined): Promise<void> {
  if (stream === undefined || stream.destroyed) return;
  stream.end();
  await finished(stream, { readable: false }).catch(() => {});
}
