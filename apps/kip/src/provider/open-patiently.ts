import { backoffDelay, systemClock, type Clock, type Logger } from "@kip/base";
import { CloudError, type CloudDriver } from "@kip/cloud";
import type { ConfigFile } from "../config/config-file.ts";
import { openDriver, type OpenDriverOptions } from "./driver.ts";
import type { Health } from "./health.ts";

/**
 * Pauses while the cloud is unavailable, milliseconds. If the process ended instead, it would be started again after up to five
 * minutes.
 */
const backoff = { initialMs: 1000, maxMs: 30_000 };

/** What {@link openCloud} needs of the process. */
interface CloudOpener {
  readonly file: ConfigFile;
  readonly logger: Logger;
  readonly health: Health;
  readonly signal: AbortSignal;
  /** Keeps Kubernetes from taking the node for lost, until the signal aborts. Never throws. */
  readonly keepNode: (signal: AbortSignal) => Promise<void>;
}

/**
 * The driver of the cloud that the file names when it is opened: a mistake in it, which may be why nothing answers, can be
 * corrected meanwhile. On this computer, what does not answer is a mistake, with which the process ends.
 *
 * @throws what the driver throws; the signal's reason
 */
export async function openCloud(
  { file, logger, health, signal, keepNode }: CloudOpener,
  {
    clusterID,
    ...options
  }: Omit<OpenDriverOptions, "controllerID" | "logger" | "signal"> & { readonly clusterID: string },
): Promise<CloudDriver> {
  const open = async (): Promise<CloudDriver> => {
    const { config } = await file.read();
    const { controllerID = clusterID } = config;
    return await openDriver(config, { ...options, controllerID, logger, signal });
  };
  if (file.usable.config.cloud.name === "local") return await open();
  health.change("opening the cloud", false);
  const opened = new AbortController();
  const keeping = keepNode(AbortSignal.any([signal, opened.signal]));
  try {
    return await openPatiently(open, { clock: systemClock, logger, signal });
  } finally {
    opened.abort();
    await keeping;
  }
}

/**
 * Opens a driver. Retries while its cloud does not respond or throttles.
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
