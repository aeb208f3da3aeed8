import {
  isSystemError,
  pause,
  untilAborted,
  watchOrPoll,
  type Clock,
  type Logger,
} from "@kip/base";
import { logPaths, statOrNone } from "./log-files.ts";
import type { LogLimits } from "./log-limits.ts";
import { isLogSettled, settleLog } from "./settle-log.ts";
import { compressOldLogs, removeOldLogs } from "./trim-log.ts";

/** Options of {@link LogRotation}. */
export interface LogRotationOptions {
  readonly limits: LogLimits;
  /** Asks conmon to switch to the next file. */
  readonly requestNext: () => Promise<void>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Milliseconds between attempts after a disk error. */
const retryMs = 10_000;
/** Interval between checks of the current file's size, milliseconds. The kubelet uses the same. */
const intervalMs = 10_000;

/**
 * Rotates the files of a running container's log. As in a kubelet, checks regularly whether the file is full, and then asks
 * conmon to switch to the next one. conmon switches by itself when a file is several times as large, and creates a file if none
 * is waiting. So even without an agent, a log never exceeds four times its limits.
 *
 * Watches the waiting file, which does not change until conmon takes it. So log output does not wake the agent.
 */
export class LogRotation implements AsyncDisposable {
  readonly #directory: string;
  readonly #options: LogRotationOptions;
  readonly #stop = new AbortController();
  readonly #kept: Promise<void>;
  #compressing: Promise<void> | undefined;

  /** @param directory a log's directory, whose log conmon has opened */
  constructor(directory: string, options: LogRotationOptions) {
    this.#directory = directory;
    this.#options = options;
    this.#kept = this.#keep();
  }

  /** Stops. Readers of the log assign numbers to its last files. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#kept;
    await this.#compressing;
  }

  async #keep(): Promise<void> {
    const { logger, clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#waitForFullFile(signal);
      } catch (error) {
        if (signal.aborted) return;
        // The whole log was removed.
        if (isSystemError(error, "ENOENT")) return;
        logger.warn("Could not keep the files of a log", { log: this.#directory, err: error });
        // There is no event when inodes become available again.
        await pause(retryMs, clock, signal);
      }
    }
  }

  /** Resolves when conmon switches to the next file. */
  async #waitForFullFile(signal: AbortSignal): Promise<void> {
    await settleLog(this.#directory);
    const changed = Promise.withResolvers<void>();
    using _watch = watchOrPoll(logPaths(this.#directory).next, () => changed.resolve());
    if (!(await isLogSettled(this.#directory))) return;
    await removeOldLogs(this.#directory, this.#options.limits);
    this.#compressing ??= this.#compress(signal);
    const looks = new AbortController();
    const looking = this.#requestWhenFull(AbortSignal.any([signal, looks.signal]));
    try {
      await untilAborted(Promise.race([changed.promise, looking]), signal);
      await untilAborted(changed.promise, signal);
    } finally {
      looks.abort();
      await looking.catch(() => {}); // thrown above
    }
  }

  /** Asks only once, because conmon may take some time. */
  async #requestWhenFull(signal: AbortSignal): Promise<void> {
    const { limits, requestNext, clock } = this.#options;
    while (await pause(intervalMs, clock, signal)) {
      const written = await statOrNone(logPaths(this.#directory).current);
      if ((written?.size ?? 0) >= limits.maxFileBytes) return await requestNext();
    }
  }

  /** Runs in the background, because it takes long. */
  async #compress(signal: AbortSignal): Promise<void> {
    try {
      await compressOldLogs(this.#directory, signal);
    } catch (error) {
      const fields = { log: this.#directory, err: error };
      this.#options.logger.warn("Could not compress a log", fields);
    } finally {
      this.#compressing = undefined;
    }
  }
}
