import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { createLogger, errorText, every, isKipError, systemClock, type Logger } from "@kip/base";
import { markImageUsed } from "@kip/cell-image";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import {
  binariesIn,
  LimitedLog,
  mergeKubeconfigContext,
  startControlPlane,
  type SupervisedProgram,
  type ControlPlane,
} from "@kip/control-plane";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import { installCells } from "@kip/kip";
import type { Node } from "@kip/k8s-types";
import { stringify } from "yaml";
import { markerEnvironment } from "./processes.ts";
import { parseOptions, type Option, type OptionValues } from "@kip/base";
import { writeRecord, type ClusterRecord } from "./cluster-record.ts";
import { localLayout, type LocalLayout } from "./layout.ts";
import { upOptions } from "./local-options.ts";
import { providerReady } from "./provider-ready.ts";
import { hasRegistry, localRegistryHost, pushToRegistry, startRegistry } from "./registry.ts";
import { supervise } from "./supervise.ts";
import { readUserSettings, type UserSettings } from "./user-settings.ts";

/** Root disk of a cell whose pod asks for no other. */
const cellDiskBytes = 5 * 2 ** 30;

/** Size of each of our logs at which a new one is begun, bytes; one older is kept. */
const logLimitBytes = 16 * 2 ** 20;

/** How often the cell image is marked as used, milliseconds; it is kept for a day. */
const imageMarkMs = 3_600_000;

/** What the daemon tells `kip up` while it starts. */
export type DaemonMessage =
  | { readonly kind: "progress"; readonly text: string }
  | { readonly kind: "ready" }
  | { readonly kind: "failed"; readonly message: string; readonly remedy: string | undefined };

/** Where the provider serves the kubelet API: metrics are fetched there, also from pods. */
const kubeletPort = 10_250;

/** Options that `kip up` hands to the daemon besides its own. */
export const daemonOptions: readonly Option[] = [
  ...upOptions,
  { flag: "image", type: "string", help: "ID of the cell image" },
  { flag: "demo-layout", type: "string", help: "layout directory of the demo image" },
];

/** Keeps the local cluster running until SIGTERM: control plane, network, registry, provider. */
export async function daemon(args: readonly string[]): Promise<void> {
  const options = parseOptions(daemonOptions, args, process.env);
  // Not by standard error, which is the same file: that has no limit.
  using log = new LimitedLog(localLayout(options).daemonLog, logLimitBytes);
  const logger = createLogger({ write: (line) => log.write(Buffer.from(`${line}\n`)) });
  const stopped = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => stopped.abort(new Error(`${signal} received`)));
  }
  const onOrphaned = (): void => stopped.abort(new Error("kip up was interrupted"));
  process.once("disconnect", onOrphaned);
  // It may have been interrupted before this program got here.
  if (!process.connected) onOrphaned();
  try {
    await using _cluster = await startCluster(options, logger, stopped.signal);
    process.removeListener("disconnect", onOrphaned);
    tell({ kind: "ready" });
    if (process.connected) process.disconnect?.();
    if (!stopped.signal.aborted) {
      await new Promise((resolve) =>
        stopped.signal.addEventListener("abort", resolve, { once: true }),
      );
    }
    logger.info("Local cluster is stopping");
  } catch (error) {
    logger.error("Local cluster could not be started", { err: error });
    tell({
      kind: "failed",
      message: errorText(error),
      remedy: isKipError(error) ? error.remedy : undefined,
    });
    if (process.connected) process.disconnect?.();
    process.exitCode = 1;
  }
}

function tell(message: DaemonMessage): void {
  // Who called may be gone; that is told by "disconnect".
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

async function startCluster(
  options: OptionValues,
  logger: Logger,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const layout = localLayout(options);
  const stack = new AsyncDisposableStack();
  try {
    tell({ kind: "progress", text: "Preparing the network of the cells" });
    const cloud = stack.use(await localCloud(options, layout, logger));
    // Before anything is made that kip down has to find; after the network's options were checked.
    await writeRecord(layout.daemonRecord, { ...clusterRecord(options, layout), isStarting: true });
    await cloud.prepareNetwork();
    signal.throwIfAborted();
    stack.use(keepImage(options, layout, logger));
    tell({ kind: "progress", text: "Starting etcd and Kubernetes" });
    const template = firstTemplate(options, cloud, signal);
    const controlPlane = stack.use(
      await startControlPlane({
        binaries: binariesIn(options.required("binaries-dir")),
        dataDir: layout.controlPlaneDir,
        logDir: layout.logDir,
        port: options.integer("port", { min: 1, max: 65_535 }),
        advertiseAddress: cloud.hostAddress,
        serviceCidr: serviceRange,
        serverNames: [cloud.hostAddress],
        environment: markerEnvironment(),
        signal,
        clock: systemClock,
        logger,
      }),
    );
    stack.use(await controlPlane.exposeAt(cloud.hostAddress));
    await withClient(controlPlane, logger, installCells);
    if (await hasRegistry()) {
      await openRegistry(stack, options, layout, { cloud, logger, signal });
    }
    await template;
    tell({ kind: "progress", text: "Registering the virtual node" });
    signal.throwIfAborted();
    const provider = stack.use(await startProvider(options, layout, cloud, controlPlane, logger));
    const { failing } = provider;
    await providerReady({ failing, logFile: layout.providerLog, signal }, async (limit) => {
      await nodeReady(controlPlane, options.required("node-name"), logger, limit);
    });
    await publish(options, layout, controlPlane);
    return stack.move();
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** Keeps the cells' image in the cache while the cluster runs: other users of the cache may build newer ones meanwhile. */
function keepImage(options: OptionValues, layout: LocalLayout, logger: Logger): AsyncDisposable {
  const stop = new AbortController();
  const work = every(
    {
      intervalMs: imageMarkMs,
      clock: systemClock,
      logger,
      what: "mark the cell image as used",
      signal: stop.signal,
    },
    async () => await markImageUsed(layout.cacheDir, options.required("image")),
  );
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await work;
    },
  };
}

async function localCloud(
  options: OptionValues,
  layout: LocalLayout,
  logger: Logger,
): Promise<LocalCloud> {
  return await createLocalCloud({
    owner: "kip-up",
    ...cloudSettings(options, layout),
    logger,
    clock: systemClock,
  });
}

/** Addresses of Services. The cells' network refuses them, as nothing leads to Services yet. */
const serviceRange = "10.96.0.0/16";

/** The local cloud's, which this process and the provider open alike. */
function cloudSettings(options: OptionValues, layout: LocalLayout) {
  return {
    stateDir: layout.machinesDir,
    imagesDir: path.join(layout.cacheDir, "images"),
    templatesDir: layout.templatesDir,
    templates: options.isSet("templates"),
    namespace: options.required("namespace-name"),
    range: options.required("network-range"),
    hostPorts: hostPorts(options),
    serviceRanges: [serviceRange],
  };
}

/**
 * Makes the machine that cells of the smallest type are copied from, if there is none yet, so that the first pod starts as
 * fast as the others. Without it they boot; the driver says why.
 */
async function firstTemplate(
  options: OptionValues,
  cloud: LocalCloud,
  signal: AbortSignal,
): Promise<void> {
  const [smallest] = [...(await cloud.instanceTypes())].sort(
    (a, b) => a.memoryBytes - b.memoryBytes,
  );
  if (!smallest || !options.isSet("templates")) return;
  const image = options.required("image");
  await cloud.prepareTemplate(smallest.name, image, cellDiskBytes, { signal }).catch(() => {});
}

/** What pods reach of this computer: API server, registry (to read), kubelet. */
function hostPorts(options: OptionValues): readonly number[] {
  const apiPort = options.integer("port", { min: 1, max: 65_535 });
  return [apiPort, registryPort(options), kubeletPort, ...options.list("host-port").map(Number)];
}

function registryPort(options: OptionValues): number {
  return options.integer("registry-port", { min: 1, max: 65_535 });
}

async function openRegistry(
  stack: AsyncDisposableStack,
  options: OptionValues,
  layout: LocalLayout,
  parts: { readonly cloud: LocalCloud; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const { cloud, logger, signal } = parts;
  const logFile = path.join(layout.logDir, "registry.log");
  const [address, port] = [cloud.hostAddress, registryPort(options)];
  stack.use(await startRegistry({ address, port, dir: layout.registryDir, logFile, logger }));
  const demo = options.text("demo-layout");
  if (demo === undefined) return;
  tell({
    kind: "progress",
    text: `Pushing the demo image to the local registry, localhost:${port}`,
  });
  await pushToRegistry(demo, "demo:latest", port, signal);
}

async function startProvider(
  options: OptionValues,
  layout: LocalLayout,
  cloud: LocalCloud,
  controlPlane: ControlPlane,
  logger: Logger,
): Promise<SupervisedProgram> {
  const nodeName = options.required("node-name");
  const pair = await controlPlane.issueKubeletCertificate(nodeName, [cloud.hostAddress]);
  const file = (name: string): string => path.join(layout.stateDir, name);
  await mkdir(layout.podLogDir, { recursive: true, mode: 0o700 });
  await writePrivate(file("kubelet.crt"), pair.certificate);
  await writePrivate(file("kubelet.key"), pair.key);
  await writePrivate(file("client-ca.crt"), controlPlane.ca);
  const settingsFile = options.text("settings");
  const settings: UserSettings =
    settingsFile === undefined ? { registries: [] } : await readUserSettings(settingsFile);
  const config = {
    cloud: {
      local: { ...cloudSettings(options, layout), faultInjection: true },
    },
    cells: {
      bootImageSpec: { id: options.required("image") },
      defaultVolumeSize: String(cellDiskBytes),
    },
    kubelet: { pods: "100", ...settings.kubelet },
    registries: [
      {
        host: localRegistryHost,
        endpoint: `http://${cloud.hostAddress}:${registryPort(options)}`,
      },
      ...settings.registries,
    ],
    ...(settings.images !== undefined && { images: settings.images }),
  };
  await writePrivate(layout.providerConfig, stringify(config));
  return supervise(logger, {
    name: "kip",
    file: process.execPath,
    args: [
      path.join(import.meta.dirname, "..", "main.ts"),
      `--provider-config=${layout.providerConfig}`,
      `--kubeconfig=${controlPlane.kipKubeconfig}`,
      `--nodename=${nodeName}`,
      `--node-ip=${cloud.hostAddress}`,
      `--tls-cert-file=${file("kubelet.crt")}`,
      `--tls-private-key-file=${file("kubelet.key")}`,
      `--client-ca-file=${file("client-ca.crt")}`,
      `--log-dir=${layout.podLogDir}`,
      "--disable-taint",
    ],
    env: process.env,
    logFile: layout.providerLog,
    logLimitBytes,
  });
}

/** Writes a file that root alone may read, whatever mode one of that name had. */
async function writePrivate(file: string, text: string): Promise<void> {
  await rm(file, { force: true });
  await writeFile(file, text, { mode: 0o600 });
}

async function publish(
  options: OptionValues,
  layout: LocalLayout,
  controlPlane: ControlPlane,
): Promise<void> {
  const record = clusterRecord(options, layout);
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

function clusterRecord(options: OptionValues, layout: LocalLayout): ClusterRecord {
  return {
    pid: process.pid,
    server: `https://127.0.0.1:${options.required("port")}`,
    nodeName: options.required("node-name"),
    kubectl: path.join(options.required("binaries-dir"), "kubectl"),
    adminKubeconfig: path.join(layout.controlPlaneDir, "admin.kubeconfig"),
    namespaceName: options.required("namespace-name"),
    networkRange: options.required("network-range"),
    userKubeconfig: options.required("kubeconfig"),
  };
}

/** Resolves when the node is Ready, and pods get their service account. */
async function nodeReady(
  controlPlane: ControlPlane,
  nodeName: string,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  await withClient(controlPlane, logger, async (client) => {
    await untilReady(async () => {
      const node = await client.get<Node>(paths.nodes(nodeName));
      await client.get(paths.serviceAccounts("default", "default"));
      const conditions = node.status?.conditions ?? [];
      return conditions.some(({ type, status }) => type === "Ready" && status === "True");
    }, signal);
  });
}

/** Does something as the cluster's administrator. */
async function withClient(
  controlPlane: ControlPlane,
  logger: Logger,
  work: (client: ApiClient) => Promise<void>,
): Promise<void> {
  const config = await loadKubeConfig({ path: controlPlane.adminKubeconfig });
  const client = createApiClient(config, { userAgent: "kip-up", logger, clock: systemClock });
  try {
    await work(client);
  } finally {
    client.close();
  }
}

async function untilReady(check: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  for (;;) {
    const problem = await check().then(
      (isReady) => (isReady ? undefined : "the node is not ready"),
      (error: unknown) => errorText(error),
    );
    if (problem === undefined) return;
    signal.throwIfAborted();
    // Two objects, once, at the start of a try-out cluster: a watch on each would be more than this asks for.
    await systemClock.sleep(100, signal);
  }
}
