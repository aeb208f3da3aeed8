import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { holdSmallWrites, type ProcessStreams } from "@kip/base";
import type { ProcessExit } from "../pod-provider.ts";

/**
 * Connects a child process that was started with pipes to the streams of a client; for `exec` by a program such
 * as ssh or a runtime's command. Resolves once it has ended and all its output was copied. A
 * process that was killed counts as 137.
 *
 * @throws the error of a program that could not be started
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
  // It may end before it has read all of its input.
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
 * Copies between a client's connection and a TCP port until both directions have ended; for
 * `portForward` to pods that have an address.
 *
 * @throws the error of a port without a listener
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
