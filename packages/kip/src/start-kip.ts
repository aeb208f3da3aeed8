import type { waitForAgent } from "@kip/agent-api";
import { untilAborted, type Clock, type Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { zoneLabel } from "@kip/cluster-network";
import {
  createInformer,
  paths,
  type ApiClient,
  type Informer,
  type KubeObject,
} from "@kip/k8s-client";
import type { NodeFacts } from "@kip/virtual-kubelet";
import { noTracer, type Tracer } from "@kip/virtual-kubelet/telemetry";
import { handlersInApi } from "./admission/runtime-class.ts";
import type { CellLimits } from "./cell/observe-cell.ts";
import { createCellSteps } from "./cell/steps/cell-steps.ts";
import { PodReplacement } from "./store/pod-replacement.ts";
import { CellStore } from "./store/cell-store.ts";
import type { CellTools } from "./cell/steps/step-context.ts";
import { collect } from "./collect/collect.ts";
import { OrphanInstances } from "./collect/orphan-instances.ts";
import type { ProviderConfig } from "./config/provider-config.ts";
import { CloudLogIns } from "./dispatch/cloud-log-ins.ts";
import { logInSource } from "./dispatch/log-in-source.ts";
import type { DnsSettings } from "./dispatch/resolv-conf.ts";
import { CellIdentities } from "./identity/cell-identity.ts";
import { LogArchive } from "./logs/log-archive.ts";
import { readNodeFacts } from "./node-facts.ts";
import { KipMetrics } from "./metrics/kip-metrics.ts";
import { readCellConsole } from "./logs/cell-console.ts";
import { measuredDriver } from "./metrics/measured-driver.ts";
import { ClusterNetwork } from "./network/cluster-network.ts";
import { KnownNetworkFacts } from "./network/network-facts.ts";
import { KipProvider, type KipProviderOptions } from "./provider.ts";
import { CellChooser } from "./selection/cell-chooser.ts";
import { architectureLabel } from "./selection/pod-placement.ts";
import { StandbyCells } from "./standby/standby-cells.ts";
import { dumpPath, type NodeDump } from "./inspect/node-dump.ts";
import { isStandby, nodeLabel, type Cell, type StandbyCell } from "./state/cell.ts";

/** A Cell as the API has it. */
type AnyCell = (Cell | StandbyCell) & KubeObject;

/** Options of {@link startKip}. */
export interface StartKipOptions {
  readonly client: ApiClient;
  /** Acts as the virtual node, by `createNodeUserClient`: evicts its pods. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly driver: CloudDriver;
  readonly config: ProviderConfig;
  readonly controllerID: string;
  /** ID of the cluster, if that is not the installation's. @default `controllerID` */
  readonly clusterID?: string | undefined;
  readonly nodeName: string;
  /** Addresses of the virtual node, at most one of each family; the kubelet port is reached at the first one. */
  readonly nodeIps: readonly string[];
  /** Namespace of kip's own Secret. @default "kip-system" */
  readonly namespace?: string | undefined;
  readonly clusterDns: readonly string[];
  /** @default "cluster.local" */
  readonly clusterDomain?: string | undefined;
  /** Directory for the logs of finished pods. */
  readonly logDir: string;
  /** Takes the time of each step of a pod's cell. @default none */
  readonly tracer?: Tracer | undefined;
  /** Connects to the agent of a cell. @default `waitForAgent` */
  readonly dial?: typeof waitForAgent | undefined;
  /** Where credential helpers are looked for. @default the process's own */
  readonly path?: string | undefined;
  /** Ends the start, and what was started: to be disposed of nevertheless. @default never */
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A provider that has been started. */
export interface RunningKip extends AsyncDisposable {
  readonly provider: KipProvider;
  /**
   * Takes the keys of another configuration that may change while kip runs, those that the table of keys calls "live": for
   * cells that start from now on, and for the virtual node. Others are left for the next start.
   *
   * @throws what the cloud reports; the configuration is in force nevertheless, but for the node's
   */
  reconfigure(config: ProviderConfig): Promise<void>;
}

interface MeasuredOptions extends StartKipOptions {
  readonly metrics: KipMetrics;
}

/** Parts that are opened before the provider is created. */
interface OpenedParts {
  readonly store: CellStore;
  readonly orphans: OrphanInstances;
  readonly identities: CellIdentities;
  readonly nodeFacts: NodeFacts;
  /** The configuration in force. */
  readonly settings: Settings;
}

/** The configuration that is in force now; everything that may change while kip runs reads it here. */
interface Settings {
  current: ProviderConfig;
}

/**
 * Starts the provider: installs the Cell resource, opens the certificate authority, takes over the cells that exist, and
 * collects what has no owner. The virtual kubelet registers the node.
 *
 * @throws the reason of the options' signal, also while the API server or the cloud does not answer
 */
export async function startKip(given: StartKipOptions): Promise<RunningKip> {
  const { clock } = given;
  const metrics = new KipMetrics(clock);
  const driver = measuredDriver(given.driver, { clock, observe: metrics.cloudRequest });
  const options = { ...given, driver, metrics };
  const stop = new AbortController();
  const signal = given.signal ? AbortSignal.any([given.signal, stop.signal]) : stop.signal;
  const opened = await untilAborted(openParts(options), signal);
  try {
    const { provider, cells, steps, standby, network } = createProvider(options, opened, signal);
    network.start();
    await cells.synced;
    standby.start(steps.standby, cells.list());
    const { orphans, settings } = opened;
    const healthMs = (): number | undefined => settings.current.cloudHealthIntervalMs;
    const podCells = (): readonly Cell[] => withPods(cells.list());
    const parts = { orphans, provider, cells: podCells, healthMs };
    const collecting = collect({ ...options, ...parts, signal });
    return {
      provider,
      reconfigure: async (config) => {
        opened.settings.current = config;
        standby.reconfigured();
        const { nodeInfo } = opened.nodeFacts;
        const facts = await readNodeFacts({ ...options, config });
        // Its IDs are those of this start of kip.
        provider.changeNode({ ...facts, nodeInfo });
      },
      [Symbol.asyncDispose]: async () => {
        stop.abort();
        await Promise.all([provider.stop(), standby.stop()]);
        await collecting;
      },
    };
  } catch (error) {
    stop.abort();
    throw error;
  }
}

async function openParts(options: MeasuredOptions): Promise<OpenedParts> {
  const { client, namespace = "kip-system", clock } = options;
  const store = new CellStore(client);
  await store.ensureCrd(options.signal);
  const identities = await CellIdentities.open({
    client,
    namespace,
    secretName: "kip-cell-ca",
    clock,
  });
  const settings = { current: options.config };
  const { driver, controllerID, clusterID = controllerID, metrics, logger } = options;
  const orphans = new OrphanInstances({ driver, store, clusterID, metrics, clock, logger });
  return { store, orphans, identities, settings, nodeFacts: await readNodeFacts(options) };
}

/** The provider and the informer of its cells; the informer calls the provider from its first list on. */
function createProvider(
  options: MeasuredOptions,
  opened: OpenedParts,
  signal: AbortSignal,
): {
  readonly provider: KipProvider;
  readonly cells: Informer<AnyCell>;
  readonly steps: ReturnType<typeof createCellSteps>;
  readonly standby: StandbyCells;
  readonly network: ClusterNetwork;
} {
  const { client, driver, metrics, clock, logger } = options;
  const archive = new LogArchive(options.logDir, logger);
  const facts = new KnownNetworkFacts({ driver, clock, logger });
  const network = createNetwork(options, { facts, nodeFacts: opened.nodeFacts }, signal);
  const chooser = createChooser(options, opened.settings);
  const limits = limitsOf(opened.settings);
  const standby = createStandby(options, opened, { chooser, limits });
  const steps = createSteps(options, opened, {
    archive,
    chooser,
    network,
    standby,
    dns: () => dnsSettings(options, facts),
    networkFacts: facts,
    onEvent: (podUid, reason, message) => provider.podEvent(podUid, "Normal", reason, message),
    onProblem: (podUid, reason, message) => provider.podEvent(podUid, "Warning", reason, message),
  });
  const cells = followCells(options, { provider: () => provider, standby }, signal);
  const dump = (): NodeDump => ({
    node: options.nodeName,
    time: new Date(clock.now()).toISOString(),
    ...provider.dump(),
    standby: standby.dump(),
    launches: steps.launches.dump(),
  });
  const provider: KipProvider = new KipProvider({
    driver,
    steps,
    chooser,
    handlerOf: handlersInApi(client),
    cells: cellsWithPods(cells),
    standby,
    metricFamilies: () => [...metrics.families(cells.list()), ...standby.metrics()],
    nodeLog: async (path) =>
      path === dumpPath
        ? JSON.stringify(dump())
        : await readCellConsole(path, { cells: cells.list(), driver }),
    archive,
    limits,
    nodeFacts: opened.nodeFacts,
    allowedUnsafeSysctls: () => opened.settings.current.allowedUnsafeSysctls,
    metrics,
    clock,
    logger,
  });
  return { provider, cells, steps, standby, network };
}

function limitsOf(settings: Settings): CellLimits {
  return {
    bootMs: 20 * 60_000,
    get unreachableLimitMs() {
      return settings.current.unreachableLimitMs;
    },
    get isCloudAsked() {
      return settings.current.cloudHealthIntervalMs !== undefined;
    },
    drainLeewayMs: 15_000,
  };
}

function createStandby(
  { driver, clock, logger }: StartKipOptions,
  { store, settings }: OpenedParts,
  own: { readonly chooser: CellChooser; readonly limits: CellLimits },
): StandbyCells {
  return new StandbyCells({
    ...own,
    store,
    driver,
    pools: () => settings.current.standbyCells,
    clock,
    logger: logger.with({ component: "standby" }),
  });
}

/** Watches the Cells of this node. A claimed Cell is no longer a standby cell when its pod's worker sees it. */
function followCells(
  { client, nodeName, clock, logger }: StartKipOptions,
  { provider, standby }: { readonly provider: () => KipProvider; readonly standby: StandbyCells },
  signal: AbortSignal,
): Informer<AnyCell> {
  return createInformer<AnyCell>({
    client,
    path: paths.cells(),
    query: { labelSelector: `${nodeLabel}=${nodeName}` },
    onEvent: ({ type, object }) => {
      if (type === "deleted") standby.cellGone(object);
      else standby.cellSeen(object);
      if (isStandby(object)) return;
      if (type === "deleted") provider().cellGone(object);
      else provider().cellChanged(object);
    },
    logger,
    clock,
    signal,
  });
}

/** A view of the Cells without those that wait for a pod. */
function cellsWithPods(cells: Informer<AnyCell>): KipProviderOptions["cells"] {
  return {
    synced: cells.synced,
    get isSynced() {
      return cells.isSynced;
    },
    list: () => withPods(cells.list()),
  };
}

function withPods(cells: readonly AnyCell[]): Cell[] {
  return cells.flatMap((cell) => (isStandby(cell) ? [] : cell));
}

function createNetwork(
  options: StartKipOptions,
  { facts, nodeFacts }: { readonly facts: KnownNetworkFacts; readonly nodeFacts: NodeFacts },
  signal: AbortSignal,
): ClusterNetwork {
  const { client, driver, nodeName, nodeIps, clock, logger } = options;
  return new ClusterNetwork({
    client,
    driver,
    facts,
    node: { name: nodeName, zone: nodeFacts.labels?.[zoneLabel] },
    nodeAddresses: nodeIps,
    clock,
    logger: logger.with({ component: "network" }),
    signal,
  });
}

function createChooser(
  { driver, nodeName, controllerID }: StartKipOptions,
  settings: Settings,
): CellChooser {
  return new CellChooser(driver, () => {
    const { defaultInstanceType, defaultVolumeBytes, privateIPOnly } = settings.current;
    const { bootImageSpec: imageSpec, bootImages } = settings.current;
    const sizes = { defaultInstanceType, defaultVolumeBytes };
    const { extendedResources, defaultInstanceProfile: instanceProfile } = settings.current;
    const architecture = settings.current.nodeLabels[architectureLabel];
    const common = { nodeName, controllerID, privateIPOnly, extendedResources, architecture };
    return { ...common, ...sizes, imageSpec, bootImages, instanceProfile };
  });
}

function createSteps(
  options: MeasuredOptions,
  { store, orphans, identities, settings }: OpenedParts,
  own: Pick<
    CellTools,
    "archive" | "chooser" | "network" | "standby" | "dns" | "networkFacts" | "onEvent" | "onProblem"
  >,
): ReturnType<typeof createCellSteps> {
  const { client, nodeClient, driver, config, controllerID, metrics, clock, logger } = options;
  const { dockerConfig } = config;
  const source = logInSource({ dockerConfig, driver, clock, path: options.path });
  return createCellSteps({
    store,
    orphans,
    replacement: new PodReplacement({ client, nodeClient, clock, logger }),
    driver,
    clusterID: options.clusterID ?? controllerID,
    identities,
    settings: () => settings.current,
    logIns: source && new CloudLogIns(source, { clock, logger }),
    metrics,
    tracer: options.tracer ?? noTracer,
    dial: options.dial,
    clock,
    logger: logger.with({ component: "cells" }),
    ...own,
  });
}

async function dnsSettings(
  options: StartKipOptions,
  known: KnownNetworkFacts,
): Promise<DnsSettings> {
  const facts = await known.get();
  return {
    clusterDns: options.clusterDns,
    clusterDomain: options.clusterDomain ?? "cluster.local",
    hostNameservers: facts.nameservers,
    hostSearchDomains: facts.searchDomains,
  };
}
