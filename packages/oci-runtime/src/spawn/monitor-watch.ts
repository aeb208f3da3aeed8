import { closeSync, constants, openSync } from "node:fs";
import { every, isSystemError, type Clock, type Logger } from "@kip/base";

/** Interval of checks, milliseconds. There is no event for the end of a program that is not a child of the agent. */
const intervalMs = 10_000;

/**
 * Notices monitors that were killed, for example by a container in the machine's process namespace. Such a monitor does not
 * report the end of its container, which can no longer write its output.
 */
export class MonitorWatch implements AsyncDisposable {
  /** Control pipes by container ID. */
  readonly #controls = new Map<string, string>();
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;

  /** @param onGone called for a container without a monitor, at each check until it is released */
  constructor(
    options: { readonly clock: Clock; readonly logger: Logger },
    onGone: (id: string) => Promise<unknown>,
  ) {
    const { clock, logger } = options;
    const what = "look for containers whose monitor is gone";
    const { signal } = this.#stop;
    this.#watching = every(
      { intervalMs, isImmediate: false, clock, logger, what, signal },
      async () => {
        for (const [id, control] of this.#controls) if (!hasReader(control)) await onGone(id);
      },
    );
  }

  /** Watches a container's monitor until it is released. @param control its control pipe */
  keep(id: string, control: string): void {
    this.#controls.set(id, control);
  }

  /** Stops for a container that has ended. */
  release(id: string): void {
    this.#controls.delete(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }
}

/** Whether a named pipe is open for reading. Synchronous, because that is faster than the thread pool. */
function hasReader(pipe: string): boolean {
  try {
    closeSync(openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK));
    return true;
  } catch (error) {
    return !isSystemError(error, "ENXIO", "ENOENT");
  }
}
