import { zoneLabel } from "@kip/cluster-network";
import { createInformer, paths, type Informer, type KubeObject } from "@kip/k8s-client";
import type { NodeFacts } from "@kip/virtual-kubelet";
import { noTracer } from "@kip/virtual-kubelet/telemetry";
import { handlersInApi } from "./admission/runtime-class.ts";
import type { CellLimits } from "./cell/observe-cell.ts";
import { createCellSteps } from "./cell/steps/cell-steps.ts";
import type { CellTools } from "./cell/steps/step-context.ts";
import type { OrphanInstances } from "./collect/orphan-instances.ts";
import type { ProviderConfig } from "./config/provider-config.ts";
import { CloudLogIns } from "./dispatch/cloud-log-ins.ts";
import { logInSource } from "./dispatch/log-in-source.ts";
import type { DnsSettings } from "./dispatch/resolv-conf.ts";
import type { CellIdentities } from "./identity/cell-identity.ts";
import { dumpPath, type NodeDump } from "./inspect/node-dump.ts";
import { readCellConsole } from "./logs/cell-console.ts";
import { LogArchive } from "./logs/log-archive.ts";
import type { KipMetrics } from "./metrics/kip-metrics.ts";
import { ClusterNetwork } from "./network/cluster-network.ts";
import { KnownNetworkFacts } from "./network/network-facts.ts";
import { KipProvider, type KipProviderOptions } from "./provider.ts";
import { CellChooser } from "./selection/cell-chooser.ts";
import { architectureLabel } from "./selection/pod-placement.ts";
import { StandbyCells } from "./standby/standby-cells.ts";
import type { StartKipOptions } from "./start-kip-options.ts";
import { isStandby, nodeLabel, type Cell, type StandbyCell } from "./state/cell.ts";
import { CellsByPod } from "./state/cells-by-pod.ts";
import { cellsOfPod } from "./state/cells-of-pod.ts";
import type { CellStore } from "./store/cell-store.ts";
import { PodReplacement } from "./store/pod-replacement.ts";

/** A Cell as read from the API. */
type AnyCell = (Cell | StandbyCell) & KubeObject;

/** Options with kip's metrics. */
export interface MeasuredOptions extends StartKipOptions {
  readonly metrics: KipMetrics;
}

/** Parts that are opened before the provider is created. */
export interface OpenedParts {
  readonly store: CellStore;
  readonly orphans: OrphanInstances;
  readonly identities: CellIdentities;
  readonly nodeFacts: NodeFacts;
  /** The configuration in force. */
  readonly settings: Settings;
}

/** The current configuration. Everything that may change while kip runs reads it here. */
export interface Settings {
  current: ProviderConfig;
}

/** A provider with its parts. */
export interface CreatedProvider {
  readonly provider: KipProvider;
  /** All Cells of the node. Calls the provider and the standby cells from its first list on. */
  readonly cells: Informer<AnyCell>;
  readonly steps: ReturnType<typeof createCellSteps>;
  readonly standby: StandbyCells;
  readonly network: ClusterNetwork;
}

/** Creates the provider and its parts, and starts to watch the node's Cells. */
export function createProvider(
  options: MeasuredOptions,
  opened: OpenedParts,
  signal: AbortSignal,
): CreatedProvider {
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
  // The step that ends an instance handles its end itself.
  const unsubscribe = driver.onTerminated(() => steps.launches.freed());
  signal.addEventListener("abort", unsubscribe, { once: true });
  const byPod = new CellsByPod();
  const cells = followCells(options, { provider: () => provider, standby, byPod }, signal);
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
    cells: cellsWithPods(cells, byPod),
    standby,
    metricFamilies: () => [...metrics.families(cells.list()), ...standby.metrics()],
    nodeLog: async (path) => {
      if (path === dumpPath) return JSON.stringify(dump());
      return await readCellConsole(path, { cells: cells.list(), driver });
    },
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

/** Watches this node's Cells. A claimed Cell stops being a standby cell before its pod's worker sees it. */
function followCells(
  { client, nodeName, clock, logger }: StartKipOptions,
  {
    provider,
    standby,
    byPod,
  }: {
    readonly provider: () => KipProvider;
    readonly standby: StandbyCells;
    readonly byPod: CellsByPod;
  },
  signal: AbortSignal,
): Informer<AnyCell> {
  return createInformer<AnyCell>({
    client,
    path: paths.cells(),
    query: { labelSelector: `${nodeLabel}=${nodeName}` },
    onEvent: ({ type, object }) => {
      if (type === "deleted") {
        standby.cellGone(object);
        if (!isStandby(object)) byPod.gone(object);
        provider().cellGone(object);
        return;
      }
      standby.cellSeen(object);
      if (!isStandby(object)) {
        byPod.seen(object);
        provider().cellChanged(object);
      }
    },
    logger,
    clock,
    signal,
  });
}

/** A view of the Cells without standby cells. */
function cellsWithPods(cells: Informer<AnyCell>, byPod: CellsByPod): KipProviderOptions["cells"] {
  return {
    synced: cells.synced,
    get isSynced() {
      return cells.isSynced;
    },
    list: () => withPods(cells.list()),
    ofPod: (podUid) => cellsOfPod(byPod.of(podUid), podUid),
  };
}

/** The Cells that have a pod. */
export function withPods(cells: readonly AnyCell[]): Cell[] {
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
