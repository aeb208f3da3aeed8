import { randomUUID } from "node:crypto";
import { hasCode, type Clock, type Logger } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { createInformer, paths, type ApiClient } from "@kip/k8s-client";
import type { KubeObject } from "@kip/k8s-client";
import type { NodeFacts } from "@kip/virtual-kubelet";
import { CellSteps } from "./cell/cell-steps.ts";
import { CellStore } from "./cell/cell-store.ts";
import { nodeLabel, type Cell } from "./state/cell.ts";
import { freeFinishedPods } from "./collect/finished-pods.ts";
import { collectOrphanInstances } from "./collect/orphan-instances.ts";
import type { ProviderConfig } from "./config/provider-config.ts";
import { CloudLogIns } from "./dispatch/cloud-log-ins.ts";
import { logInSource } from "./dispatch/log-in-source.ts";
import type { DnsSettings } from "./dispatch/pod-network-files.ts";
import { CellIdentities } from "./identity/cell-identity.ts";
import { LogArchive } from "./logs/log-archive.ts";
import { KipProvider } from "./provider.ts";
import { CellChooser } from "./selection/cell-chooser.ts";
import { nodeResources } from "./selection/node-resources.ts";

/** How often instances are compared with Cells, milliseconds: the safety net below the events. */
const collectIntervalMs = 60_000;

/** What {@link startKip} needs. */
export interface StartKipOptions {
  readonly client: ApiClient;
  readonly driver: CloudDriver;
  readonly config: ProviderConfig;
  readonly controllerID: string;
  readonly nodeName: string;
  /** Address of the virtual node: the kubelet port is reached here. */
  readonly nodeIp: string;
  /** Namespace of kip's own Secret. @default "kip-system" */
  readonly namespace?: string;
  readonly clusterDns: readonly string[];
  /** @default "cluster.local" */
  readonly clusterDomain?: string;
  /** Directory for the logs of finished pods. */
  readonly logDir: string;
  /** Where credential helpers are looked for. @default the process's own */
  readonly path?: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A provider that is at work. */
export interface RunningKip extends AsyncDisposable {
  readonly provider: KipProvider;
}

/**
 * Brings the provider to work: the Cell resource, the certificate authority, the cells that are there
 * already, and the collection of what nobody owns. The node itself is the virtual kubelet's.
 */
export async function startKip(options: StartKipOptions): Promise<RunningKip> {
  const { client, driver, config, nodeName, clock, logger } = options;
  const namespace = options.namespace ?? "kip-system";
  const store = new CellStore(client);
  await store.ensureCrd();
  const identities = await CellIdentities.open({
    client,
    namespace,
    secretName: "kip-cell-ca",
    clock,
  });
  const stop = new AbortController();
  const archive = new LogArchive(options.logDir, logger);
  const logIns = logInSource({
    dockerConfig: config.dockerConfig,
    driver,
    clock,
    ...(options.path !== undefined && { path: options.path }),
  });
  const steps = new CellSteps({
    store,
    driver,
    chooser: new CellChooser(driver, {
      nodeName,
      controllerID: options.controllerID,
      defaultInstanceType: config.defaultInstanceType,
      defaultVolumeBytes: config.defaultVolumeBytes,
      imageSpec: config.bootImageSpec,
      privateIPOnly: config.privateIPOnly,
    }),
    identities,
    archive,
    dns: () => dnsSettings(options),
    registries: config.registries,
    images: config.images,
    ...(logIns && { logIns: new CloudLogIns(logIns, { clock, logger }) }),
    nodeIp: options.nodeIp,
    clock,
    logger: logger.with({ component: "cells" }),
    onEvent: (memory, reason, message) => provider.podEvent(memory, "Normal", reason, message),
  });
  const cells = createInformer<Cell & KubeObject>({
    client,
    path: paths.cells(),
    query: { labelSelector: `${nodeLabel}=${nodeName}` },
    onEvent: ({ type, object }) =>
      type === "deleted" ? provider.cellGone(object) : provider.cellChanged(object),
    logger,
    clock,
    signal: stop.signal,
  });
  const provider: KipProvider = new KipProvider({
    driver,
    steps,
    cells,
    archive,
    limits: { bootMs: 20 * 60_000, healthyMs: config.healthyMs, drainLeewayMs: 15_000 },
    nodeFacts: await nodeFacts(options),
    clock,
    logger,
  });
  await cells.synced;
  const collecting = collectForEver(stop.signal);
  return {
    provider,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await provider.stop();
      await collecting;
    },
  };

  async function collectForEver(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await collectOrphanInstances({ driver, store, logger });
      } catch (error) {
        logger.warn("Instances could not be compared with Cells", { err: error });
      }
      try {
        await freeFinishedPods({ client, cells: cells.list(), provider });
      } catch (error) {
        logger.warn("Cells of finished pods could not be freed", { err: error });
      }
      // Events tell of every change; this pass is for the ones that were lost.
      await clock.sleep(collectIntervalMs, signal).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    }
  }
}

async function nodeFacts(options: StartKipOptions): Promise<NodeFacts> {
  const { config, controllerID, driver, nodeIp } = options;
  const offers = await driver.instanceTypes();
  return {
    labels: {
      "topology.kubernetes.io/zone": driver.zone,
      "kip.elotl.co/cloud": driver.name,
      ...config.nodeLabels,
    },
    capacity: nodeResources(config.capacity, offers, config.defaultVolumeBytes),
    internalIp: nodeIp,
    nodeInfo: nodeInfo(controllerID),
  };
}

/**
 * The node is no machine: kernels are those of its cells, which may differ. Its IDs are those of the installation,
 * which it keeps wherever kip runs; a start of kip is its boot.
 */
function nodeInfo(controllerID: string): NonNullable<NodeFacts["nodeInfo"]> {
  return {
    machineID: controllerID.replaceAll("-", ""),
    systemUUID: controllerID,
    bootID: randomUUID(),
    osImage: "Kip, a machine for each pod",
    kernelVersion: "of-each-cell",
    containerRuntimeVersion: "crun://of-each-cell",
  };
}

async function dnsSettings(options: StartKipOptions): Promise<DnsSettings> {
  const facts = await options.driver.networkFacts();
  return {
    clusterDns: options.clusterDns,
    clusterDomain: options.clusterDomain ?? "cluster.local",
    hostNameservers: facts.nameservers,
    hostSearchDomains: facts.searchDomains,
  };
}

/**
 * Installs the Cell resource ahead of time. The API server holds back the first objects of a resource
 * for two seconds after it is new; whoever makes the cluster can have that behind it.
 */
export async function installCells(client: ApiClient): Promise<void> {
  await new CellStore(client).ensureCrd();
}

/**
 * ID of this installation: the UID of the kube-system namespace, so that it needs no store of its own.
 * Two clusters never share it, and a kip that moves to another machine keeps it.
 */
export async function readControllerID(client: ApiClient): Promise<string> {
  const namespace = await client.get<KubeObject>(paths.namespaces("kube-system"));
  return namespace.metadata?.uid ?? "";
}

/** The cluster's DNS service, if it has one: `kube-system/kube-dns`, as in the original. */
export async function findClusterDns(client: ApiClient): Promise<readonly string[]> {
  try {
    const service = await client.get<{ spec?: { clusterIP?: string } }>(
      paths.services("kube-system", "kube-dns"),
    );
    return service.spec?.clusterIP === undefined ? [] : [service.spec.clusterIP];
  } catch (error) {
    if (hasCode(error, "K8S_NOT_FOUND")) return [];
    throw error;
  }
}
