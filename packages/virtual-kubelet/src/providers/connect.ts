import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { holdSmallWrites, type ProcessStreams } from "@kip/base";
import type { ProcessExit } from "../pod-provider.ts";

/**
 * Connects a child process that was started with pipes to a client's streams, for an `exec` that uses a program such as ssh or
 * a runtime's command. Resolves once the process has ended and all its output was copied. The exit code of a killed process is
 * 137.
 *
 * @throws the error if the program could not be started
 * @example
 * ```ts
 * import { spawn } from "node:child_process";
 * import { PassThrough } from "node:stream";
 * import { text } from "node:stream/consumers";
 * import { connectProcess } from "@kip/virtual-kubelet";
 *
 * const stdout = new PassThrough();
 * const exit = connectProcess(spawn("sh", ["-c", "echo hello; exit 3"]), { stdout, tty: false });
 * assert.equal(await text(stdout), "hello\n");
 * assert.deepEqual(await exit, { exitCode: 3 });
 * ```
 */
export async function connectProcess(
  child: ChildProcess,
  streams: ProcessStreams,
): Promise<ProcessExit> {
  const ended = Promise.withResolvers<number>();
  child.once("error", ended.reject);
  child.once("close", (code) => ended.resolve(code ?? 137));
  // It may end before it has read all its input.
  if (child.stdin) holdSmallWrites(child.stdin);
  if (streams.stdin && child.stdin) pipeline(streams.stdin, child.stdin).catch(() => {});
  else child.stdin?.end();
  const copies = (["stdout", "stderr"] as const).map(async (name) => {
    const [from, to] = [child[name], streams[name]];
    if (from && to) await pipeline(from, to);
    else from?.resume();
  });
  const [exitCode] = await Promise.all([ended.promise, ...copies]);
  return { exitCode };
}

/**
 * Copies data between a client's connection and a TCP port until both directions have ended. For `portForward` to pods with an
 * address.
 *
 * @throws the error of connecting if nothing listens on the port
 */
export async function connectPort(
  to: { readonly host: string; readonly port: number },
  connection: Duplex,
  signal: AbortSignal,
): Promise<void> {
  const socket = net.connect({ ...to, allowHalfOpen: true });
  holdSmallWrites(socket);
  try {
    await once(socket, "connect", { signal });
    await Promise.all([
      pipeline(connection, socket, { signal }),
      pipeline(socket, connection, { signal }),
    ]);
  } finally {
    socket.destroy();
  }
}
