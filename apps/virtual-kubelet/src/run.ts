import { pause, systemClock, uselessOptions, type OptionValues } from "@kip/base";
import type { KubeConfig } from "@kip/k8s-client";
import {
  delegatedAccess,
  startNode,
  startStandbyNode,
  type NodeOptions,
  type PodProvider,
  type ProviderSetup,
  type RunningNode,
} from "@kip/virtual-kubelet";
import {
  certificatePair,
  choice,
  clientCaOf,
  createCommandLogger,
  duration,
  labelValue,
  NodeMetrics,
  nodeTimes,
  openClient,
  openLogOutput,
  openTracer,
  optionalCalls,
  ServingTls,
  startMetrics,
  taintsOf,
  waitForStart,
} from "@kip/virtual-kubelet/command";
import { commandOptions } from "./options.ts";
import { builtInProviders } from "./providers.ts";

/** Ports of a running node. */
interface NodePorts {
  readonly kubelet: number;
  readonly metrics?: number | undefined;
}

/** Runs a node until the signal aborts. Calls `ready` with the ports when the node has started. */
export async function runNode(
  options: OptionValues,
  env: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
  ready: (ports: NodePorts) => void = () => {},
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const logger = createCommandLogger(options, stack.use(openLogOutput(options)));
  for (const notice of uselessOptions(commandOptions, options)) logger.warn(notice);
  if (options.text("pod-sync-workers") !== undefined)
    options.integer("pod-sync-workers", { min: 1, max: 2 ** 31 - 1 });
  const program = { env, userAgent: "virtual-kubelet/0.1.0", logger };
  const { config, client } = await openClient(options, program);
  stack.defer(() => client.close());
  const metrics = new NodeMetrics();
  const metricsPort = await startMetrics(options, metrics, stack);
  const provider = options.required("provider");
  const setup = providerSetup(options, { client, logger });
  const node: NodeParts = {
    ...(await nodeSettings(options, setup, config)),
    providerName: provider,
    metrics,
    logger,
    tracer: stack.use(openTracer(options, env, { logger, provider })),
    provider: async () => await createProvider(provider, setup),
  };
  if (options.isSet("standby")) {
    const replica = stack.use(startStandbyNode(node));
    void replica.active.then(
      (running) => ready({ kubelet: running.kubeletPort ?? 0 }),
      () => {}, // it was stopped before the node had started
    );
  } else {
    const limitMs = duration("startup-timeout", options.required("startup-timeout"));
    const running = stack.use(await startSingleNode(node, limitMs, signal));
    ready({ kubelet: running.kubeletPort ?? 0, metrics: metricsPort });
    logger.info("The node is ready", { node: setup.nodeName, port: running.kubeletPort });
  }
  await pause(Number.POSITIVE_INFINITY, systemClock, signal);
  logger.info("Began to stop the node", { reason: String(signal.reason) });
}

/** The options of a node, with a function to create its provider. */
type NodeParts = Omit<NodeOptions, "provider" | "signal"> & {
  readonly provider: () => Promise<PodProvider>;
};

async function createProvider(name: string, setup: ProviderSetup): Promise<PodProvider> {
  const provider = await builtInProviders().create(name, setup);
  const missing = optionalCalls.filter((call) => !provider[call]);
  if (missing.length > 0) setup.logger.info("The provider lacks optional calls", { name, missing });
  return provider;
}

async function startSingleNode(
  { provider, ...node }: NodeParts,
  limitMs: number,
  signal: AbortSignal,
): Promise<RunningNode> {
  return await waitForStart(limitMs, signal, async (ending) =>
    startNode({ ...node, provider: await provider(), signal: ending }),
  );
}

function providerSetup(
  options: OptionValues,
  shared: Pick<ProviderSetup, "client" | "logger">,
): ProviderSetup {
  return {
    ...shared,
    nodeName: options.required("nodename"),
    configPath: options.text("provider-config"),
    // Early releases wrote "Linux".
    os: choice("os", options.required("os").toLowerCase(), ["linux", "windows"]),
    internalIp: options.required("node-ip"),
    kubeletPort: options.integer("kubelet-port", { min: 0, max: 65_535 }),
    clusterDomain: options.required("cluster-domain"),
    clock: systemClock,
  };
}

async function nodeSettings(
  options: OptionValues,
  setup: ProviderSetup,
  config: KubeConfig,
): Promise<Omit<NodeOptions, "provider" | "logger" | "signal">> {
  const { client, clock, nodeName, internalIp, kubeletPort, os } = setup;
  const serving = new ServingTls({
    pair: async () => await certificatePair(options),
    clientCa: async () => await clientCaOf(options, config),
    nodeName,
    ipAddress: internalIp,
    clock,
  });
  const tls = await serving.read();
  const { streams, intervals } = nodeTimes(options);
  return {
    client,
    clock,
    nodeName,
    os,
    taints: taintsOf(options, labelValue(options.required("provider"))),
    kubeletVersion: "v1.34.0-vk-0.1.0",
    requestCertificate: serving.isSelfSigned,
    reloadTls: async () => await serving.read(),
    kubelet: {
      ...tls,
      port: kubeletPort,
      ...delegatedAccess({ client, nodeName, clock }),
      ...streams,
    },
    intervals,
  };
}
