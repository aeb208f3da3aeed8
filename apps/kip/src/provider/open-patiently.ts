import { backoffDelay, type Clock, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";

/** Pauses while the cloud is away, milliseconds. A process that ended instead would be started again after up to five minutes. */
const backoff = { initialMs: 1000, maxMs: 30_000 };

/**
 * Opens a driver, again and again while its cloud does not answer or throttles.
 *
 * @throws any other error of `open`; the signal's reason
 */
export async function openPatiently<T>(
  open: () => Promise<T>,
  {
    clock,
    logger,
    signal,
  }: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await open();
    } catch (err) {
      if (!CloudError.is(err, "CLOUD_UNAVAILABLE", "CLOUD_THROTTLED")) throw err;
      logger.warn("Waits to start: the cloud does not answer", { err });
      await clock.sleep(backoffDelay(failures, backoff, err), signal);
    }
  }
}
