import { type OptionValues, OptionError } from "@kip/base";

const portRange = { min: 1, max: 65_535 } as const;

/** Port of the kubelet API. Metrics are read from it, also by pods. */
const kubeletPort = 10_250;

/** Port of the API server. @throws {OptionError} `OPTION_INVALID` */
export function apiPort(options: OptionValues): number {
  return options.integer("port", portRange);
}

/** Port of the local registry. @throws {OptionError} `OPTION_INVALID` */
export function registryPort(options: OptionValues): number {
  return options.integer("registry-port", portRange);
}

/**
 * TCP ports of this computer that pods may reach: API server, registry (read-only), kubelet, and those of `--host-port`.
 *
 * @throws {OptionError} `OPTION_INVALID`
 */
export function hostPorts(options: OptionValues): readonly number[] {
  const further = options.list("host-port").map(parsePort);
  return [apiPort(options), registryPort(options), kubeletPort, ...further];
}

function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= portRange.min && port <= portRange.max) return port;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --host-port ${text}: a TCP port is expected`,
    {
      remedy: `Give a number from ${portRange.min} to ${portRange.max}`,
    },
  );
}
