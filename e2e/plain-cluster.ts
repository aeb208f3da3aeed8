// A cluster without kip up: a real Kubernetes control plane, a local cloud, and a kip whose cells are its machines.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { silentLogger, systemClock } from "@kip/base";
import { buildCellImage } from "@kip/cell-image";
import { createLocalCloud, type LocalCloud } from "@kip/cloud-local";
import {
  obtainBinaries,
  ReleaseSites,
  startControlPlane,
  type ControlPlane,
} from "@kip/control-plane";
import { auditLog, eventually, run, type Result } from "./cluster.ts";
import { cluster as own } from "./cluster-number.ts";

const root = path.join(import.meta.dirname, "..");
const cacheDir = process.env["KIP_CACHE_DIR"] ?? "/var/cache/kip";
const kubeletPort = 10_250;
const parts = { clock: systemClock, logger: silentLogger };

/** A running plain cluster. Disposing of it removes its machines, processes and network. */
export interface PlainCluster extends AsyncDisposable {
  /** Address and port of this computer that pods can reach, for a registry, and a second port. */
  readonly hostAddress: string;
  readonly registryPort: number;
  readonly servicePort: number;
  /** Environment with the administrator's kubeconfig, and with kubectl in PATH. */
  readonly env: NodeJS.ProcessEnv;
  kubectl(...args: readonly string[]): Promise<Result>;
  /** Like {@link PlainCluster.kubectl}, but fails the test unless it succeeds, and returns the output. */
  ok(...args: readonly string[]): Promise<string>;
  /** The end of the outer kip's log. */
  log(): string;
}

/** Name of the node whose cells are the machines. */
export const machinesNode = "machines";

/** Starts the cluster. It uses the addresses of `kip up` in this test run. */
export async function startPlainCluster(folder: string): Promise<PlainCluster> {
  await using stack = new AsyncDisposableStack();
  const binaries = await obtainBinaries({
    ...parts,
    cacheDir,
    sites: new ReleaseSites({ env: process.env }),
  });
  const agentEntry = path.join(root, "apps/itzo/src/main.ts");
  const image = await buildCellImage({ ...parts, cacheDir, agentEntry });
  const settings = {
    stateDir: path.join(folder, "cells"),
    imagesDir: path.join(cacheDir, "images"),
    templatesDir: path.join(cacheDir, "templates"),
    namespace: own.name,
    range: own.networkRange,
    hostPorts: [own.apiPort, own.registryPort, own.hostPort, kubeletPort],
    serviceRanges: [own.serviceRange],
    hostServices: true,
  };
  const cloud = stack.use(await createLocalCloud({ owner: "plain", ...settings, ...parts }));
  stack.defer(async () => await removeMachines(cloud));
  await cloud.prepareNetwork();
  const plane = stack.use(
    await startControlPlane({
      ...parts,
      binaries,
      dataDir: path.join(folder, "control-plane"),
      logDir: path.join(folder, "logs"),
      port: own.apiPort,
      auditLog: auditLog(`${own.name}-plain`),
      advertiseAddress: cloud.hostAddress,
      serviceCidr: own.serviceRange,
      serverNames: [cloud.hostAddress],
    }),
  );
  stack.use(await plane.exposeAt(cloud.hostAddress));
  const env = {
    ...process.env,
    KUBECONFIG: plane.adminKubeconfig,
    PATH: `${binaries.directory}:${process.env["PATH"]}`,
  };
  const kubectl = async (...args: readonly string[]): Promise<Result> =>
    await run("kubectl", args, { env });
  await removeAccount(kubectl);
  const logFile = path.join(folder, "kip.log");
  stack.use(await startOuterKip({ folder, logFile, plane, cloud, image: image.id, settings }));
  await eventually("the node of the machines", async () => {
    const { stdout } = await kubectl("get", "node", machinesNode);
    return stdout.includes(" Ready ");
  });
  const started = stack.move();
  const log = (): string => readFileSync(logFile, "utf8").slice(-6000);
  return {
    hostAddress: cloud.hostAddress,
    registryPort: own.registryPort,
    servicePort: own.hostPort,
    env,
    kubectl,
    ok: async (...args) => {
      const result = await kubectl(...args);
      const text = result.stdout + result.stderr;
      assert.equal(result.status, 0, `kubectl ${args.join(" ")}\n${text}`);
      return result.stdout;
    },
    log,
    [Symbol.asyncDispose]: async () => await started.disposeAsync(),
  };
}

/** Removes kip's account, which our control plane creates and other clusters do not have. */
async function removeAccount(kubectl: PlainCluster["kubectl"]): Promise<void> {
  await kubectl("delete", "clusterrole,clusterrolebinding", "kip");
  await kubectl("delete", "namespace", "kip-system", "--timeout=120s");
}

async function removeMachines(cloud: LocalCloud): Promise<void> {
  await cloud.terminateAll();
  await cloud.removeNetwork();
}

/** Starts the kip whose cells run this cluster's pods. It has its own namespace for its Secrets. */
async function startOuterKip(options: {
  readonly folder: string;
  readonly logFile: string;
  readonly plane: ControlPlane;
  readonly cloud: LocalCloud;
  readonly image: string;
  readonly settings: object;
}): Promise<AsyncDisposable> {
  const { folder, plane, cloud } = options;
  const file = (name: string): string => path.join(folder, name);
  const [address] = [cloud.hostAddress];
  const pair = await plane.issueKubeletCertificate(machinesNode, [address]);
  const write = (name: string, text: string): void => {
    rmSync(file(name), { force: true });
    writeFileSync(file(name), text, { mode: 0o600 });
  };
  mkdirSync(file("pod-logs"), { recursive: true, mode: 0o700 });
  write("kubelet.crt", pair.certificate);
  write("kubelet.key", pair.key);
  write("client-ca.crt", plane.ca);
  const registry = `${address}:${own.registryPort}`;
  const config = {
    cloud: { local: options.settings },
    cells: { bootImageSpec: { id: options.image } },
    registries: [{ host: registry, endpoint: `http://${registry}` }],
  };
  write("provider.yaml", JSON.stringify(config));
  const args = [
    path.join(root, "apps/kip/src/main.ts"),
    `--provider-config=${file("provider.yaml")}`,
    `--kubeconfig=${plane.adminKubeconfig}`,
    "--own-namespace=machines",
    `--nodename=${machinesNode}`,
    `--node-ip=${address}`,
    `--tls-cert-file=${file("kubelet.crt")}`,
    `--tls-private-key-file=${file("kubelet.key")}`,
    `--client-ca-file=${file("client-ca.crt")}`,
    `--log-dir=${file("pod-logs")}`,
    "--disable-taint",
  ];
  const log = openSync(options.logFile, "a");
  const child = spawn(process.execPath, args, { stdio: ["ignore", log, log] });
  closeSync(log);
  return { [Symbol.asyncDispose]: async () => await end(child) };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
  await ended;
  clearTimeout(timer);
}
