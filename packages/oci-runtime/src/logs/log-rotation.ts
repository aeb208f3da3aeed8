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
  /** Has conmon go on to the next file. */
  readonly requestNext: () => Promise<void>;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Milliseconds until the next try, after an error of the disk. */
const retryMs = 10_000;
/** Between looks at the size of the file that is written, milliseconds: the kubelet's. */
const intervalMs = 10_000;

/**
 * Keeps the files of a container's log while it runs. As a kubelet it looks now and then whether the file is full, and has
 * conmon go on to the next one. conmon goes on by itself when a file is several times as large, and makes one if none waits:
 * without an agent, too, a log takes no more of the disk than four times its limits.
 *
 * What is watched is the file that waits, which does not change until conmon takes it: no line of the log wakes us.
 */
export class LogRotation implements AsyncDisposable {
  readonly #directory: string;
  readonly #options: LogRotationOptions;
  readonly #stop = new AbortController();
  readonly #kept: Promise<void>;
  #compressing: Promise<void> | undefined;

  /** @param directory of a log that conmon has opened */
  constructor(directory: string, options: LogRotationOptions) {
    this.#directory = directory;
    this.#options = options;
    this.#kept = this.#keep();
  }

  /** Stops. Readers of the log give its last files their numbers. */
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
        // The whole log has been removed.
        if (isSystemError(error, "ENOENT")) return;
        logger.warn("Could not keep the files of a log", { log: this.#directory, err: error });
        // There is no event for an inode that becomes free.
        await pause(retryMs, clock, signal);
      }
    }
  }

  /** Resolves when conmon goes on to the next file. */
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

  /** Once: conmon may take its time. */
  async #requestWhenFull(signal: AbortSignal): Promise<void> {
    const { limits, requestNext, clock } = this.#options;
    while (await pause(intervalMs, clock, signal)) {
      const written = await statOrNone(logPaths(this.#directory).current);
      if ((written?.size ?? 0) >= limits.maxFileBytes) return await requestNext();
    }
  }

  /** Beside the rest: it takes long. */
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
