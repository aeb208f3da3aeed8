import path from "node:path";
import { every, systemClock } from "@kip/base";
import { markImageUsed } from "@kip/cell-image";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import {
  binariesIn,
  mergeKubeconfigContext,
  startControlPlane,
  type ControlPlane,
} from "@kip/control-plane";
import { installCells } from "@kip/kip";
import { writeRecord, type ClusterRecord } from "../cluster/cluster-record.ts";
import { isEc2 } from "../cluster/cloud-choice.ts";
import type { LocalEc2 } from "../ec2/start-ec2.ts";
import { apiPort, registryPort } from "../cluster/host-ports.ts";
import { serviceRanges } from "../cluster/service-range.ts";
import { switches } from "../cluster/switches.ts";
import { markerEnvironment } from "../cluster/processes.ts";
import { nodeReady, withClient } from "./administrator.ts";
import { cellDiskBytes, cloudSettings, imagesOf } from "./cloud-settings.ts";
import type { ClusterContext } from "../cluster/cluster-context.ts";
import { providerReady } from "./provider-ready.ts";
import { startClusterDns } from "./cluster-dns.ts";
import { hasRegistry, pushToRegistry, startRegistry } from "./registry.ts";
import { startProvider } from "./start-provider.ts";

/** How often to mark the cell image as used, milliseconds. A mark protects it for a day. */
const imageMarkMs = 3_600_000;

/** Starts network, control plane, registry and provider. Disposing of the result stops them in reverse order. */
export async function startCluster(context: ClusterContext): Promise<AsyncDisposable> {
  const { options, layout, logger, signal, onProgress } = context;
  await using stack = new AsyncDisposableStack();
  onProgress("Preparing the network of the cells");
  const cloud = stack.use(await openCloud(context));
  // Write the record before creating anything that kip down has to find, but after checking the network's options.
  await writeRecord(layout.daemonRecord, { ...clusterRecord(context), isStarting: true });
  await cloud.prepareNetwork();
  signal.throwIfAborted();
  stack.use(keepImage(context));

  onProgress("Starting etcd and Kubernetes");
  const template = firstTemplate(context, cloud);
  const controlPlane = stack.use(await startKubernetes(context, cloud));
  stack.use(await controlPlane.exposeAt(cloud.hostAddress));
  await withClient(controlPlane, logger, installCells);
  const dns = stack.use(await startClusterDns(context, cloud, controlPlane));
  if (await hasRegistry()) stack.use(await openRegistry(context, cloud));
  await dns.ready;
  onProgress("Booting the template that cells are copies of");
  await template;

  onProgress("Registering the virtual node");
  signal.throwIfAborted();
  const ec2 = isEc2(options) ? stack.use(await openEc2(context, cloud)) : undefined;
  const { failing } = stack.use(await startProvider(context, cloud, controlPlane, ec2?.settings));
  await providerReady({ failing, logFile: layout.providerLog, signal }, async (limit) => {
    await nodeReady(controlPlane, options.required("node-name"), logger, limit);
  });
  await publish(context, controlPlane);
  return stack.move();
}

async function openCloud({ options, layout, logger }: ClusterContext): Promise<LocalCloud> {
  const settings = { owner: "kip-up", ...cloudSettings(options, layout), logger };
  if (!isEc2(options)) return await createLocalCloud({ ...settings, clock: systemClock });
  const { openEc2Cloud } = await import("../ec2/start-ec2.ts");
  return await openEc2Cloud(settings);
}

/** Loaded on demand, as most clusters do not use it. */
async function openEc2(context: ClusterContext, cloud: LocalCloud): Promise<LocalEc2> {
  context.onProgress("Starting moto, which imitates EC2");
  const { startEc2 } = await import("../ec2/start-ec2.ts");
  return await startEc2(context, cloud);
}

async function startKubernetes(
  { options, layout, logger, signal }: ClusterContext,
  cloud: LocalCloud,
): Promise<ControlPlane> {
  return await startControlPlane({
    binaries: binariesIn(options.required("binaries-dir")),
    dataDir: layout.controlPlaneDir,
    logDir: layout.logDir,
    port: apiPort(options),
    advertiseAddress: cloud.hostAddress,
    serviceCidr: serviceRanges(options).join(","),
    serverNames: [cloud.hostAddress],
    featureGates: switches(options, "feature-gates"),
    runtimeConfig: switches(options, "runtime-config"),
    auditLog: options.text("audit-log"),
    actsAsNode: options.isSet("act-as-node") ? options.required("node-name") : undefined,
    environment: markerEnvironment(),
    signal,
    clock: systemClock,
    logger,
  });
}

/** Keeps the cell image in the cache while the cluster runs, although other users of the cache may build newer ones. */
function keepImage({ options, layout, logger }: ClusterContext): AsyncDisposable {
  const stop = new AbortController();
  const work = every(
    {
      intervalMs: imageMarkMs,
      clock: systemClock,
      logger,
      what: "mark the cell image as used",
      signal: stop.signal,
    },
    async () => {
      for (const id of imagesOf(options)) await markImageUsed(layout.cacheDir, id);
    },
  );
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await work;
    },
  };
}

/**
 * Creates the template for cells of the smallest type if there is none yet, so that the first pod starts as fast as later ones.
 * Without a template, cells boot.
 */
async function firstTemplate(
  { options, signal, logger }: ClusterContext,
  cloud: LocalCloud,
): Promise<void> {
  const [smallest] = [...(await cloud.instanceTypes())].sort(
    (a, b) => a.memoryBytes - b.memoryBytes,
  );
  if (!smallest || !options.isSet("templates") || isEc2(options)) return;
  const image = options.required("image");
  try {
    await cloud.prepareTemplate(smallest.name, image, cellDiskBytes, { signal });
  } catch (err) {
    logger.info("Could not make the first template", { err });
  }
}

/** Starts the local registry, and pushes the demo image to it. */
async function openRegistry(
  { options, layout, logger, signal, onProgress }: ClusterContext,
  cloud: LocalCloud,
): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const logFile = path.join(layout.logDir, "registry.log");
  const [address, port] = [cloud.hostAddress, registryPort(options)];
  const dir = layout.registryDir;
  stack.use(await startRegistry({ address, port, dir, logFile, logger, signal }));
  const demo = options.text("demo-layout");
  if (demo !== undefined) {
    onProgress(`Pushing the demo image to the local registry, localhost:${port}`);
    await pushToRegistry(demo, "demo:latest", port, signal);
  }
  return stack.move();
}

/** Adds the context to the user's kubeconfig, and records that the cluster is ready. */
async function publish(context: ClusterContext, controlPlane: ControlPlane): Promise<void> {
  const record = clusterRecord(context);
  const { layout } = context;
  await mergeKubeconfigContext({
    path: record.userKubeconfig,
    kubectl: record.kubectl,
    statePath: layout.contextState,
    server: controlPlane.server,
    ca: controlPlane.ca,
    certificate: controlPlane.admin.certificate,
    key: controlPlane.admin.key,
  });
  await writeRecord(layout.daemonRecord, record);
}

function clusterRecord({ options, layout }: ClusterContext): ClusterRecord {
  return {
    pid: process.pid,
    server: `https://127.0.0.1:${options.required("port")}`,
    nodeName: options.required("node-name"),
    kubectl: path.join(options.required("binaries-dir"), "kubectl"),
    adminKubeconfig: path.join(layout.controlPlaneDir, "admin.kubeconfig"),
    namespaceName: options.required("namespace-name"),
    networkRange: options.required("network-range"),
    services: options.required("service-range"),
    userKubeconfig: options.required("kubeconfig"),
    cloud: options.required("cloud"),
  };
}
