import { createLogger, logLevels, OptionError, type Logger, type OptionValues } from "@kip/base";
import type { KubeletApiOptions } from "../kubelet-api/index.ts";
import type { NodeMetrics } from "../metrics/node-metrics.ts";
import type { NodeIntervals, NodeTaint } from "../node/node-options.ts";
import { verboseLevel, type LogOutput } from "./log-output.ts";
import { serveHealth, type ProcessHealth } from "./health-server.ts";
import { serveMetrics } from "./metrics-server.ts";
import { address, duration } from "./read-values.ts";
import { levelOf, textLine } from "./text-log.ts";

/** Creates the logger according to `--log-level`, `--log-format` and klog's flags. @throws {OptionError} `OPTION_INVALID` */
export function createCommandLogger(options: OptionValues, output: LogOutput): Logger {
  const level = options.choice("log-level", logLevels);
  const format = options.choice("log-format", ["text", "json"]);
  const hasHeader = !options.isSet("klog.skip_headers");
  return createLogger({
    level: verboseLevel(level, options),
    write: (record) => {
      const line = format === "json" ? record : textLine(record, { hasHeader });
      output.write(line, levelOf(record));
    },
  });
}

/** The taints of the node. @throws {OptionError} `OPTION_INVALID` */
export function taintsOf(options: OptionValues, providerName: string): readonly NodeTaint[] {
  const effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"] as const;
  const taint = {
    key: options.required("taint"),
    value: options.text("taint-value") ?? providerName,
    effect: options.choice("taint-effect", effects),
  };
  return options.isSet("disable-taint") ? [] : [taint];
}

/** Time limits of streams, and the interval of comparisons with the API. @throws {OptionError} `OPTION_INVALID` */
export function nodeTimes(options: OptionValues): {
  readonly streams: Pick<KubeletApiOptions, "streamIdleTimeoutMs" | "streamCreationTimeoutMs">;
  readonly intervals: Partial<NodeIntervals>;
} {
  const time = (flag: string): number => duration(flag, options.required(flag));
  const above0 = (flag: string): number => {
    const ms = time(flag);
    if (ms > 0) return ms;
    throw new OptionError("OPTION_INVALID", `Cannot use --${flag} 0: a time above 0 is expected`);
  };
  return {
    streams: {
      // As with a kubelet, 0 means that there is no limit.
      streamIdleTimeoutMs: time("stream-idle-timeout") || Number.POSITIVE_INFINITY,
      streamCreationTimeoutMs: above0("stream-creation-timeout"),
    },
    intervals: { sweepMs: above0("full-resync-period") },
  };
}

/** Where `--metrics-addr` asks for metrics; undefined if it is off. @throws {OptionError} `OPTION_INVALID` */
export function metricsAddress(options: OptionValues): ReturnType<typeof address> | undefined {
  const flag = options.required("metrics-addr");
  return flag === "off" ? undefined : address("metrics-addr", flag);
}

/**
 * Serves metrics at `--metrics-addr` until the stack is disposed of. Returns the port, or undefined if disabled.
 *
 * @throws {OptionError} `OPTION_INVALID`; {@link VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function startMetrics(
  options: OptionValues,
  metrics: Pick<NodeMetrics, "text">,
  stack: AsyncDisposableStack,
): Promise<number | undefined> {
  const where = metricsAddress(options);
  return where && stack.use(await serveMetrics(where, () => metrics.text())).port;
}

/**
 * Serves the process's health at `--health-addr` until the stack is disposed of.
 *
 * @throws {OptionError} `OPTION_INVALID`; {@link VirtualKubeletError} `VK_LISTEN_FAILED`
 */
export async function startHealth(
  options: OptionValues,
  health: () => ProcessHealth,
  stack: AsyncDisposableStack,
): Promise<void> {
  const flag = options.required("health-addr");
  if (flag !== "off") stack.use(await serveHealth(address("health-addr", flag), health));
}
