import {
  createLogger,
  logLevels,
  pause,
  systemClock,
  untilAborted,
  withTimeout,
  type Logger,
  type OptionValues,
  OptionError,
  uselessOptions,
} from "@kip/base";
import type { KubeConfig } from "@kip/k8s-client";
import {
  delegatedAccess,
  startNode,
  startStandbyNode,
  type NodeOptions,
  type PodProvider,
  type ProviderSetup,
  type RunningNode,
  VirtualKubeletError,
} from "@kip/virtual-kubelet";
import {
  certificatePair,
  NodeMetrics,
  openClient,
  optionalCalls,
  readOptionFile,
  ServingTls,
} from "@kip/virtual-kubelet/command";
import { openLogOutput, verboseLevel, type LogOutput } from "./log-output.ts";
import { serveMetrics } from "./metrics-server.ts";
import { commandOptions } from "./options.ts";
import { builtInProviders } from "./providers.ts";
import { address, choice, duration, labelValue } from "./read-values.ts";
import { openTracer } from "./tracing/open-tracer.ts";
import { levelOf, textLine } from "./text-log.ts";

/** Ports of a node that has started. */
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
  const logger = createNodeLogger(options, stack.use(openLogOutput(options)));
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
      () => {}, // it was stopped before it ran the node
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

/** The options of a node, with a provider that is still to be created. */
type NodeParts = Omit<NodeOptions, "provider" | "signal"> & {
  readonly provider: () => Promise<PodProvider>;
};

/** Serves metrics unless they are off; the stack ends them. Returns the port. */
async function startMetrics(
  options: OptionValues,
  metrics: NodeMetrics,
  stack: AsyncDisposableStack,
): Promise<number | undefined> {
  const flag = options.required("metrics-addr");
  if (flag === "off") return undefined;
  return stack.use(await serveMetrics(address("metrics-addr", flag), () => metrics.text())).port;
}

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

/**
 * Waits for the start no longer than until the signal aborts or the time is over: a provider may hang
 * and heed nothing.
 *
 * @param limitMs 0 for no limit
 * @throws {VirtualKubeletError} `VK_START_TIMEOUT`
 */
async function waitForStart<T>(
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
    // Not once it has started: it is disposed of then, and writes what its pods came to.
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

function createNodeLogger(options: OptionValues, output: LogOutput): Logger {
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
    clientCa: async () => await clientCa(options, config),
    nodeName,
    ipAddress: internalIp,
    clock,
  });
  const tls = await serving.read();
  const effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"] as const;
  const taint = {
    key: options.required("taint"),
    value: options.text("taint-value") ?? labelValue(options.required("provider")),
    effect: options.choice("taint-effect", effects),
  };
  return {
    client,
    clock,
    nodeName,
    os,
    taints: options.isSet("disable-taint") ? [] : [taint],
    kubeletVersion: "v1.34.0-vk-0.1.0",
    requestCertificate: serving.isSelfSigned,
    reloadTls: async () => await serving.read(),
    kubelet: {
      ...tls,
      port: kubeletPort,
      ...delegatedAccess({ client, nodeName, clock }),
      streamIdleTimeoutMs: duration("stream-idle-timeout", options.required("stream-idle-timeout")),
      streamCreationTimeoutMs: duration(
        "stream-creation-timeout",
        options.required("stream-creation-timeout"),
      ),
    },
    intervals: {
      sweepMs: duration("full-resync-period", options.required("full-resync-period")),
    },
  };
}

/** Without a file: the authority that the kubeconfig trusts, which signs the API server's clients in most clusters. */
async function clientCa(options: OptionValues, config: KubeConfig): Promise<string> {
  if (options.text("client-ca-file") !== undefined)
    return readOptionFile(options, "client-ca-file");
  const { ca } = await config.credentials();
  if (ca) return ca.toString("utf8");
  throw new OptionError("OPTION_MISSING", "Cannot start: --client-ca-file is not given", {
    remedy: "Give the authority of the API server's client certificate with --client-ca-file",
  });
}
