import { spawn, type ChildProcess } from "node:child_process";
import { constants } from "node:os";
import {
  errorText,
  textBefore,
  untilAborted,
  type ProcessStreams,
  type TerminalSize,
} from "@kip/base";
import type { OciProcess } from "../bundle/oci-spec.ts";
import type { ExecOptions, ExecResult } from "../contract/container-runtime.ts";
import { RuntimeError } from "../errors.ts";
import type { RunPaths } from "../run-paths.ts";
import { runtimeArguments } from "../spawn/conmon.ts";
import type { CrunProgram } from "../spawn/crun-program.ts";
import { copyInput, copyOutput, finishOutput } from "./copy-streams.ts";
import { ExecFiles } from "./exec-files.ts";
import type { ExecTurns } from "./exec-turns.ts";
import { killSession } from "./kill-session.ts";
import type { ChildPipe, NamedPipes } from "./named-pipes.ts";
import { firstSize, terminalCommand, watchResizes } from "./terminal.ts";
import { waitForProcess } from "./wait-for-process.ts";

/** Dependencies of {@link execProcess}. */
export interface ExecContext {
  readonly crun: CrunProgram;
  readonly paths: RunPaths;
  readonly pipes: NamedPipes;
  /** Name for the files of this call, unique while it is running. */
  readonly name: string;
  /**
   * Whether orphans are left behind, because the container is in the machine's PID namespace and has no first process that
   * adopts them.
   */
  readonly leavesOrphans: boolean;
  /** Limits how many commands start at the same time. @default the command starts at once */
  readonly turns?: ExecTurns | undefined;
  /** Called when the process has started. */
  readonly onBegun?: (() => void) | undefined;
}

/** Runs a process in a container. @see ContainerRuntime.exec for the contract */
export async function execProcess(
  id: string,
  process: OciProcess,
  streams: ProcessStreams,
  signal: AbortSignal,
  context: ExecContext,
): Promise<ExecResult> {
  signal.throwIfAborted();
  const sizes = streams.tty && streams.resizes ? await firstSize(streams.resizes) : undefined;
  const sized = withConsoleSize(process, sizes?.first);
  await using files = await ExecFiles.create(context.paths.execs, context.name, sized);
  using turn = await context.turns?.enter(signal);
  const pipes = await openPipes(streams, context.pipes, signal);
  const child = startCrun(id, { files, pipes, context, process, isTerminal: streams.tty });
  const exited = exitCode(child, id);
  const finished = new AbortController();
  if (turn ?? context.onBegun)
    void files.waitPid(finished.signal).then(() => {
      turn?.[Symbol.dispose]();
      context.onBegun?.();
    }, ignore);
  const onAbort = (): void => {
    // Once it has ended, its process ID may belong to another process.
    if (child.exitCode === null && child.signalCode === null) void killAll(child, files);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (pipes.stdin && streams.stdin) void copyInput(streams.stdin, pipes.stdin.socket);
    if (sizes) watchResizes(sizes.later, files.waitPid(finished.signal));
    const outputs = Promise.all([
      pipes.stdout && copyOutput(pipes.stdout.socket, streams.stdout, exited),
      pipes.stderr && copyOutput(pipes.stderr.socket, streams.stderr, exited),
    ]);
    const code = await exited;
    // A background process may print without end, and a client may stop reading.
    await untilAborted(outputs, signal);
    const result = await files.readResult(id, code);
    const finishing = Promise.all([finishOutput(streams.stdout), finishOutput(streams.stderr)]);
    await untilAborted(finishing, signal);
    return { exitCode: result };
  } finally {
    finished.abort();
    signal.removeEventListener("abort", onAbort);
    closePipes(pipes);
  }
}

/** The command ended before it started. */
function ignore(): void {}

/** Starts `crun exec` and gives the child's ends of the pipes to it. */
function startCrun(
  id: string,
  exec: {
    readonly files: ExecFiles;
    readonly pipes: Pipes;
    readonly context: ExecContext;
    readonly process: OciProcess;
    readonly isTerminal: boolean;
  },
): ChildProcess {
  const { files, pipes, context, process, isTerminal } = exec;
  const isDetached = context.leavesOrphans;
  const consoleSocket = isDetached && isTerminal ? files.console : undefined;
  const crun = [
    context.crun.path,
    ...runtimeArguments(context.paths),
    `--log=${files.log}`,
    "exec",
    ...(isDetached ? ["--detach"] : []),
    ...(consoleSocket === undefined ? [] : [`--console-socket=${consoleSocket}`]),
    `--process=${files.process}`,
    `--pid-file=${files.pid}`,
    id,
  ];
  const foreground = isTerminal ? terminalCommand(crun) : crun;
  const command = isDetached ? waitForProcess(files.pid, crun, consoleSocket) : foreground;
  const [file = "", ...args] = withOomScore(process.oomScoreAdj, command);
  const child = spawn(file, args, {
    env: { ...context.crun.env, SHELL: "/bin/sh" },
    stdio: [pipes.stdin, pipes.stdout, pipes.stderr].map((pipe) => pipe?.childFd ?? "ignore"),
  });
  for (const pipe of Object.values(pipes)) pipe.release();
  return child;
}

/**
 * A command line that sets `oom_score_adj` before it starts the command. crun sets it only for a container's main process.
 * Processes that it executes later inherit the caller's. With the agent's value, the kernel would kill everything else first.
 */
function withOomScore(oomScoreAdj: number, command: readonly string[]): readonly string[] {
  // Without privileges the value can only be raised, which is enough to protect others.
  const script = 'echo "$0" 2>/dev/null >/proc/self/oom_score_adj; exec "$@"';
  return ["/bin/sh", "-c", script, String(oomScoreAdj), ...command];
}

/** The OCI process of an exec: the container's own, with the options applied. */
export function execSpec(main: OciProcess, options: ExecOptions, tty: boolean): OciProcess {
  const added = options.env ?? [];
  const names = new Set(added.map((entry) => entry.split("=", 1)[0]));
  const term = tty && !names.has("TERM") ? ["TERM=xterm"] : [];
  const replaced = new Set([...names, ...(term.length > 0 ? ["TERM"] : [])]);
  return {
    ...main,
    terminal: tty,
    args: options.command,
    env: [...main.env.filter((entry) => !replaced.has(textBefore(entry, "="))), ...term, ...added],
    cwd: options.cwd ?? main.cwd,
    user: options.user ?? main.user,
  };
}

function withConsoleSize(process: OciProcess, size: TerminalSize | undefined): OciProcess {
  return size ? { ...process, consoleSize: { height: size.rows, width: size.columns } } : process;
}

type Pipes = Partial<Record<"stdin" | "stdout" | "stderr", ChildPipe>>;

/**
 * Streams that were not requested are /dev/null. A terminal has a single output stream and always has an input, because end of
 * input would act like Ctrl-D.
 */
async function openPipes(
  streams: ProcessStreams,
  pipes: NamedPipes,
  signal: AbortSignal,
): Promise<Pipes> {
  const opened: Pipes = {};
  try {
    if (streams.stdin ?? streams.tty) opened.stdin = await pipes.toChild();
    if (streams.stdout) opened.stdout = await pipes.fromChild();
    if (streams.stderr && !streams.tty) opened.stderr = await pipes.fromChild();
    signal.throwIfAborted(); // an abort before the start would not end the process
    return opened;
  } catch (error) {
    closePipes(opened);
    throw error;
  }
}

function closePipes(pipes: Pipes): void {
  for (const pipe of Object.values(pipes)) {
    pipe.release();
    pipe.socket.destroy();
  }
}

async function exitCode(child: ChildProcess, id: string): Promise<number> {
  return await new Promise((resolve, reject) => {
    child.on("error", (error) => {
      reject(
        new RuntimeError(
          "EXEC_FAILED",
          `Cannot run a command in container "${id}": ${errorText(error)}`,
          {
            cause: error,
            execFailure: "other",
          },
        ),
      );
    });
    child.on("exit", (code, killedBy) => {
      resolve(code ?? 128 + (killedBy ? constants.signals[killedBy] : 0));
    });
  });
}

/** crun does not forward signals. So the process inside is killed directly, and crun then has nothing to wait for. */
async function killAll(child: ChildProcess, files: ExecFiles): Promise<void> {
  try {
    const pid = await files.readPid();
    if (pid !== undefined) await killSession(pid);
  } catch {
    // Without a free file descriptor for searching /proc, only crun can be killed.
  } finally {
    child.kill("SIGKILL");
  }
}
