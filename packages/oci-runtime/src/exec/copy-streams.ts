import { once } from "node:events";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";

/**
 * Copies a client's input to a process. Then closes the pipe, which is the process's end of input. Ends early, without an
 * error, when the process stops reading or the client is gone.
 */
export async function copyInput(source: Readable, target: Writable): Promise<void> {
  const gone = new AbortController();
  target.on("error", () => gone.abort());
  target.on("close", () => gone.abort());
  const onGone = (): void => void source.destroy();
  gone.signal.addEventListener("abort", onGone, { once: true });
  try {
    for await (const chunk of source) {
      if (!target.write(chunk)) await once(target, "drain", { signal: gone.signal });
    }
    if (target.writableLength > 0) await flushed(target, gone.signal);
  } catch {
    // One side is gone: the process gets the end of its input.
  } finally {
    gone.signal.removeEventListener("abort", onGone);
    // A named pipe has no half-close, so closing this end of it signals the end of input.
    target.destroy();
  }
}

async function flushed(target: Writable, signal: AbortSignal): Promise<void> {
  while (target.writableLength > 0) {
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    target.write("", () => resolve());
    await promise;
    if (signal.aborted) return;
  }
}

/** Writes to a client at the client's pace. Resolves when it can take more. Data for a client that is gone are dropped. */
export async function writeAtPace(target: Writable, chunk: Buffer): Promise<void> {
  if (target.destroyed || target.writableEnded || target.write(chunk)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["drain", "close", "error"];
  for (const event of events) target.once(event, resolve);
  await promise;
  for (const event of events) target.off(event, resolve);
}

/** How long a pipe must be silent after the process's end to count as empty, milliseconds. */
const silenceMs = 200;

/**
 * Copies a process's output at the client's pace. Resolves when the pipe has ended, or when `exited` has resolved and the pipe
 * was silent for a while. A background process that inherited the pipe must not delay the end of a command that has finished.
 */
export async function copyOutput(
  source: Socket,
  target: Writable | undefined,
  exited: Promise<unknown>,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let quiet: NodeJS.Timeout | undefined;
  let isTargetGone = target === undefined;
  target?.on("error", () => {
    isTargetGone = true;
    source.resume();
  });
  target?.on("close", () => {
    isTargetGone = true;
    source.resume();
  });
  source.on("data", (chunk: Buffer) => {
    quiet?.refresh();
    if (isTargetGone || !target || target.write(chunk)) return;
    source.pause();
    target.once("drain", () => {
      quiet?.refresh();
      source.resume();
    });
  });
  source.on("close", resolve);
  source.on("error", () => resolve());
  const onExit = (): void => {
    const check = (): void => {
      const before = source.bytesRead;
      // Timers run before pipes, so a busy process may not have read the pipe since the end. After this turn it has.
      setImmediate(() => {
        // The pipe is only silent because the client is slow, so keep waiting.
        if (source.isPaused() || source.bytesRead !== before) quiet?.refresh();
        else resolve();
      });
    };
    quiet = setTimeout(check, silenceMs);
  };
  exited.then(onExit, onExit);
  await promise;
  clearTimeout(quiet);
  source.destroy();
}

/** Ends a client's output stream. Waits until the client has taken everything or is gone. */
export async function finishOutput(target: Writable | undefined): Promise<void> {
  if (!target || target.destroyed || target.writableEnded) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  target.once("close", resolve);
  target.once("error", () => resolve());
  target.end(resolve);
  await promise;
}
