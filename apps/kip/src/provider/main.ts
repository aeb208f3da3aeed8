import {
  pause,
  systemClock,
  untilAborted,
  uselessOptions,
  type Logger,
  type OptionValues,
} from "@kip/base";
import type { ApiClient, KubeConfig } from "@kip/k8s-client";
import {
  CurrentTerm,
  findClusterDns,
  readClusterID,
  runInTurns,
  startKip,
  type ProviderConfig,
  type TurnParts,
} from "@kip/kip";
import { checkNodeUser, createNodeUserClient, keepKnownNode } from "@kip/virtual-kubelet";
import {
  choice,
  createCommandLogger,
  openClient,
  openLogOutput,
  openTracer,
  startHealth,
  type Tracer,
} from "@kip/virtual-kubelet/command";
import { Health } from "./health.ts";
import { checkNodeFiles, nodeFlags, serveNode } from "./node.ts";
import { openCloud } from "./open-patiently.ts";
import {
  clusterDnsOf,
  nodeIpsOf,
  ownNamespace,
  providerOptions,
  uselessVariables,
} from "./provider-options.ts";
import { parseCommand } from "../cli/parse-command.ts";
import { ConfigFile } from "../config/config-file.ts";
import { followConfig } from "../config/follow-config.ts";
import { stopRequest } from "../cli/stop-request.ts";

const usage = `Usage: kip [options]

Runs the virtual node: every pod bound to it gets a cell of its own. kip help lists the other commands.

Example: kip --provider-config=provider.yaml --kubeconfig=kip.kubeconfig --nodename=kip`;

/** Runs the provider until SIGINT or SIGTERM. */
export async function runProvider(args: readonly string[]): Promise<void> {
  const options = parseCommand(usage, providerOptions, args);
  if (!options) return;
  options.choice("provider", ["kip"]);
  choice("os", options.required("os").toLowerCase(), ["linux"]);
  nodeFlags(options);
  clusterDnsOf(options);
  await checkNodeFiles(options);
  await using stack = new AsyncDisposableStack();
  const logger = createCommandLogger(options, stack.use(openLogOutput(options)));
  for (const notice of uselessOptions(providerOptions, options)) logger.warn(notice);
  for (const [name, instead] of Object.entries(uselessVariables))
    if ((process.env[name] ?? "") !== "") logger.warn(`${name} has no effect: ${instead}`);
  const tracer = stack.use(openTracer(options, process.env, { logger, provider: "kip" }));
  const { signal } = stopRequest();
  const health = new Health();
  await startHealth(options, () => health, stack);
  const file = await ConfigFile.open(options.required("provider-config"), logger);
  const program = { env: process.env, userAgent: "kip/0.1.0", logger };
  const { client, config: cluster } = await openClient(options, program);
  stack.defer(() => client.close());
  const nodeClient = openNodeClient(options, { cluster, logger });
  stack.defer(() => nodeClient?.close());
  await serve({ options, logger, tracer, file, client, nodeClient, cluster, health, signal });
}

/** Opens a client that acts as the virtual node. Undefined if kip uses its own permissions. */
function openNodeClient(
  options: OptionValues,
  { cluster, logger }: { readonly cluster: KubeConfig; readonly logger: Logger },
): ApiClient | undefined {
  if (!options.isSet("act-as-node")) return undefined;
  const nodeName = options.required("nodename");
  const common = { userAgent: "kip/0.1.0", clock: systemClock, logger };
  return createNodeUserClient(cluster, { nodeName, ...common });
}

interface Serve {
  readonly options: OptionValues;
  readonly logger: Logger;
  readonly tracer: Tracer;
  readonly file: ConfigFile;
  readonly client: ApiClient;
  /** Acts as the virtual node. Undefined if kip uses its own permissions. */
  readonly nodeClient: ApiClient | undefined;
  /** The address of the API server. */
  readonly cluster: KubeConfig;
  readonly health: Health;
  readonly signal: AbortSignal;
}

async function serve(needs: Serve): Promise<void> {
  const { options, logger, file, client, nodeClient, health, signal } = needs;
  const nodeName = options.required("nodename");
  const clusterID = await readClusterID(client);
  if (nodeClient) await checkNodeUser(nodeClient, { nodeName, logger });
  const currentTerm = options.isSet("leader-elect") ? new CurrentTerm() : undefined;
  const priceFile = options.text("instance-data-path");
  const driverOptions = { clusterID, term: currentTerm?.get, priceFile };
  const keepNode = async (until: AbortSignal): Promise<void> =>
    await keepKnownNode({
      client: nodeClient ?? client,
      nodeName,
      clock: systemClock,
      logger,
      signal: until,
    });
  await using driver = await openCloud({ ...needs, keepNode }, driverOptions);
  const { controllerID = clusterID } = file.usable.config;
  const node = { nodeName, controllerID, clusterID, nodeIps: await nodeIpsOf(options) };
  const run = async (parts: TurnParts): Promise<void> => await serveTurn(needs, node, parts);
  const parts = { client, nodeClient, driver, signal };
  if (!currentTerm) return await run(parts);
  const waits = (): void => health.change("waiting for the Lease of the node", true);
  waits();
  const turn = async (ofTurn: TurnParts): Promise<void> => await run(ofTurn).finally(waits);
  await runInTurns({ ...parts, nodeName, currentTerm, clock: systemClock, logger, run: turn });
}

interface RunningNode {
  readonly nodeName: string;
  readonly controllerID: string;
  readonly clusterID: string;
  readonly nodeIps: readonly string[];
}

/** Runs the node until the signal aborts. */
async function serveTurn(
  needs: Serve,
  { nodeName, controllerID, clusterID, nodeIps }: RunningNode,
  { client, nodeClient, driver, signal }: TurnParts,
): Promise<void> {
  const { options, logger, tracer, cluster, health, file } = needs;
  const [nodeIp = ""] = nodeIps;
  health.change("starting the node", false);
  const { config, content } = await file.readForTurn();
  await using kip = await startKip({
    client,
    nodeClient,
    driver,
    config,
    controllerID,
    clusterID,
    nodeName,
    nodeIps,
    namespace: ownNamespace(options, cluster),
    clusterDns: clusterDnsOf(options) ?? (await untilAborted(findClusterDns(client), signal)),
    clusterDomain: options.required("cluster-domain"),
    logDir: options.required("log-dir"),
    tracer,
    signal,
    clock: systemClock,
    logger,
  });
  await using node = await serveNode({
    provider: kip.provider,
    tracer,
    client,
    nodeClient,
    cluster,
    nodeName,
    nodeIp,
    options,
    logger,
    signal,
  });
  const apply = async (changed: ProviderConfig): Promise<void> => await kip.reconfigure(changed);
  followConfig({ file, content, logger, signal, apply });
  health.change("running the node", true);
  logger.info("Started the provider", {
    node: nodeName,
    driver: driver.name,
    port: node.kubeletPort,
  });
  await pause(Number.POSITIVE_INFINITY, systemClock, signal);
  logger.info("Began to stop the provider", { reason: String(signal.reason) });
}
