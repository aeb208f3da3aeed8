import {
  createLogger,
  errorText,
  isCodedError,
  parseOptions,
  pause,
  systemClock,
  type Option,
} from "@kip/base";
import { LimitedLog } from "@kip/control-plane";
import { stopRequest } from "../../cli/stop-request.ts";
import type { DaemonMessage } from "../cluster/daemon-message.ts";
import { localLayout } from "../cluster/layout.ts";
import { upOptions } from "../cluster/local-options.ts";
import { startCluster } from "./start-cluster.ts";
import { logLimitBytes } from "./supervise.ts";

/** Options that `kip up` passes to the daemon in addition to its own. */
export const daemonOptions: readonly Option[] = [
  ...upOptions,
  { flag: "coredns", type: "string", help: "path of CoreDNS" },
  { flag: "image", type: "string", help: "ID of the cell image" },
  { flag: "other-image", type: "list", help: "IDs of those for other processors" },
  { flag: "demo-layout", type: "string", help: "layout directory of the demo image" },
];

/** Keeps the local cluster running until SIGTERM: control plane, network, name server, registry, provider. */
export async function daemon(args: readonly string[]): Promise<void> {
  const options = parseOptions(daemonOptions, args, process.env);
  const layout = localLayout(options);
  // Standard error goes to the same file, but without a size limit.
  using log = new LimitedLog(layout.daemonLog, logLimitBytes);
  const logger = createLogger({ write: (line) => log.write(Buffer.from(`${line}\n`)) });
  const stopped = stopRequest();
  const onOrphaned = (): void => stopped.abort(new Error("kip up was interrupted"));
  process.once("disconnect", onOrphaned);
  try {
    await using _cluster = await startCluster({
      options,
      layout,
      logger,
      signal: stopped.signal,
      onProgress: (text) => send({ kind: "progress", text }),
    });
    process.removeListener("disconnect", onOrphaned);
    send({ kind: "ready" });
    if (process.connected) process.disconnect?.();
    await pause(Number.POSITIVE_INFINITY, systemClock, stopped.signal);
    logger.info("Began to stop the local cluster", { reason: String(stopped.signal.reason) });
  } catch (error) {
    logger.error("Could not start the local cluster", { err: error });
    send({
      kind: "failed",
      message: errorText(error),
      remedy: isCodedError(error) ? error.remedy : undefined,
    });
    if (process.connected) process.disconnect?.();
    process.exitCode = 1;
  }
}

function send(message: DaemonMessage): void {
  // If kip up has ended, the event "disconnect" follows.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
