import { readFile } from "node:fs/promises";
import {
  createLogger,
  isCodedError,
  logLevels,
  pause,
  systemClock,
  uselessOptions,
  type Logger,
  type OptionValues,
} from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import {
  decodeProviderConfig,
  findClusterDns,
  readControllerID,
  startKip,
  type ProviderConfig,
} from "@kip/kip";
import { openClient } from "@kip/virtual-kubelet/command";
import { openDriver } from "./driver.ts";
import { serveNode } from "./node.ts";
import { nodeIpsOf, providerOptions } from "./provider-options.ts";
import { KipError } from "../errors.ts";
import { parseCommand } from "../cli/parse-command.ts";
import { parseSettings } from "../cli/parse-settings.ts";
import { stopRequest } from "../cli/stop-request.ts";

const usage =
  "Usage: kip [options]\n\nRuns the virtual node: every pod bound to it gets a cell of its own. kip help lists the other commands.";

/** Runs the provider until SIGINT or SIGTERM. */
export async function runProvider(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, providerOptions, args);
  if (!options) return;
  const logger = createLogger({ level: options.choice("log-level", logLevels) });
  for (const notice of uselessOptions(providerOptions, options)) logger.warn(notice);
  const { signal } = stopRequest();
  const config = await readConfig(options);
  for (const key of config.withoutEffect)
    logger.warn("Ignored a setting that has no effect in this version", { key });
  await using stack = new AsyncDisposableStack();
  const program = { env: process.env, userAgent: "kip/0.1.0", logger };
  const { client } = await openClient(options, program);
  stack.defer(() => client.close());
  await serve({ options, logger, config, client, signal });
}

interface Serve {
  readonly options: OptionValues;
  readonly logger: Logger;
  readonly config: ProviderConfig;
  readonly client: ApiClient;
  readonly signal: AbortSignal;
}

async function serve({ options, logger, config, client, signal }: Serve): Promise<void> {
  const nodeName = options.required("nodename");
  const controllerID = config.controllerID ?? (await readControllerID(client));
  await using driver = await openDriver(config, controllerID, logger);
  const nodeIps = nodeIpsOf(options);
  const [nodeIp = ""] = nodeIps;
  const dns = options.text("cluster-dns");
  await using kip = await startKip({
    client,
    driver,
    config,
    controllerID,
    nodeName,
    nodeIps,
    clusterDns: dns === undefined ? await findClusterDns(client) : [dns],
    clusterDomain: options.required("cluster-domain"),
    logDir: options.required("log-dir"),
    clock: systemClock,
    logger,
  });
  await using node = await serveNode({
    provider: kip.provider,
    client,
    nodeName,
    nodeIp,
    options,
    logger,
  });
  logger.info("Started the provider", {
    node: nodeName,
    driver: driver.name,
    port: node.kubeletPort,
  });
  await pause(Number.POSITIVE_INFINITY, systemClock, signal);
  logger.info("Began to stop the provider", { reason: String(signal.reason) });
}

async function readConfig(options: OptionValues): Promise<ProviderConfig> {
  const file = options.required("provider-config");
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw new KipError("CONFIG_INVALID", `Cannot read provider configuration "${file}"`, {
      cause: error,
      remedy: "Give the path of an existing file with --provider-config",
    });
  }
  try {
    return decodeProviderConfig(parseSettings(text));
  } catch (error) {
    if (isCodedError(error)) throw error; // it names what is wrong
    throw new KipError("CONFIG_INVALID", `Cannot read provider configuration "${file}"`, {
      cause: error,
    });
  }
}
