import {
  createLogger,
  logLevels,
  pause,
  systemClock,
  uselessOptions,
  type Logger,
  type OptionValues,
} from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { findClusterDns, readControllerID, startKip, type ProviderConfig } from "@kip/kip";
import { openClient } from "@kip/virtual-kubelet/command";
import { openDriver } from "./driver.ts";
import { serveNode } from "./node.ts";
import { nodeIpsOf, providerOptions } from "./provider-options.ts";
import { parseCommand } from "../cli/parse-command.ts";
import { followConfig } from "../config/follow-config.ts";
import { noteText } from "../config/placed-notes.ts";
import { configError, readConfigFile, readConfigText } from "../config/read-provider-config.ts";
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
  const file = options.required("provider-config");
  const { config, content, problems, notices } = readConfigText(await readConfigFile(file));
  if (!config) throw configError(file, problems);
  for (const note of notices) logger.warn("Read a setting with a remark", { note: noteText(note) });
  await using stack = new AsyncDisposableStack();
  const program = { env: process.env, userAgent: "kip/0.1.0", logger };
  const { client } = await openClient(options, program);
  stack.defer(() => client.close());
  await serve({ options, logger, config, file, content, client, signal });
}

interface Serve {
  readonly options: OptionValues;
  readonly logger: Logger;
  readonly config: ProviderConfig;
  /** Where the configuration is from, and what it had. */
  readonly file: string;
  readonly content: unknown;
  readonly client: ApiClient;
  readonly signal: AbortSignal;
}

async function serve(needs: Serve): Promise<void> {
  const { options, logger, config, client, signal, file, content } = needs;
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
  const apply = async (changed: ProviderConfig): Promise<void> => await kip.reconfigure(changed);
  followConfig({ file, first: { content }, logger, signal, apply });
  logger.info("Started the provider", {
    node: nodeName,
    driver: driver.name,
    port: node.kubeletPort,
  });
  await pause(Number.POSITIVE_INFINITY, systemClock, signal);
  logger.info("Began to stop the provider", { reason: String(signal.reason) });
}
