import { systemClock, untilAborted, withTimeout } from "@kip/base";
import { VirtualKubeletError } from "../errors.ts";

/**
 * Waits for the start until the signal aborts or the time is over, because a provider may hang and ignore signals.
 *
 * @param limitMs 0 means no limit
 * @throws {VirtualKubeletError} `VK_START_TIMEOUT`
 */
export async function waitForStart<T>(
  limitMs: number,
  signal: AbortSignal,
  start: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const begin = async (): Promise<T> => await start(ending.signal);
  const error = (): Error => startTimeout(limitMs);
  try {
    return limitMs === 0
      ? await untilAborted(begin(), signal)
      : await withTimeout(begin, { limitMs, clock: systemClock, signal, error });
  } catch (reason) {
    // Not after the start: the node is then disposed of, and writes the final statuses of its pods.
    ending.abort(reason);
    throw reason;
  }
}

function startTimeout(limitMs: number): VirtualKubeletError {
  return new VirtualKubeletError(
    "VK_START_TIMEOUT",
    `Cannot start the node: it has not started after ${limitMs / 1000} s`,
    { remedy: "See the last lines of the log, or raise --startup-timeout" },
  );
}
