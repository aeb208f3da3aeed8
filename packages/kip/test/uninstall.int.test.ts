// The whole removal of kip with a real API server. Its pods are moved while it runs, and then it is removed with everything
// that it has created.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import path from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import {
  endSharedControlPlane,
  sharedControlPlane,
  type SharedControlPlane,
} from "@kip/control-plane/testing";
import {
  createApiClient,
  createLeaderLease,
  loadKubeConfig,
  paths,
  type ApiClient,
} from "@kip/k8s-client";
import { eventually, temporaryFolder } from "@kip/testing";
import { findLeftOvers } from "../src/cleanup/left-overs.ts";
import { installCells } from "../src/cluster-facts.ts";
import { CurrentTerm } from "../src/replicas/current-term.ts";
import { uninstallNode, type UninstallOptions } from "../src/uninstall/uninstall-node.ts";
import { openSimulatedCells } from "./simulated-cells.ts";
import { startSimulatedNode } from "./simulated-node.ts";

const manifests = path.join(import.meta.dirname, "../../../deploy/kustomize/base");
const [controllerID, clusterID, nodeName] = ["uninstalled", "this-cluster", "kip"];
const deployment = { namespace: "kip-system", name: "kip" };
/** Stands for the kip of this process. The Deployment selects it, and no ReplicaSet adopts it. */
const processPod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "process",
    namespace: deployment.namespace,
    labels: { "app.kubernetes.io/name": "kip" },
  },
  spec: { schedulerName: "none", containers: [{ name: "kip", image: "example.test/kip:1" }] },
};
const folder = temporaryFolder();
const directory = path.join(folder.path, "plane");
const shared = { clock: systemClock, logger: silentLogger };
const cells = openSimulatedCells(8);

describe("uninstallNode()", { timeout: 300_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let driver: CloudDriver;
  let kip: AsyncDisposable | undefined;
  let progress: string[] = [];

  before(
    async () => {
      // Its own control plane, because the Cell resource is removed.
      plane = await sharedControlPlane({ directory });
      const config = await loadKubeConfig({ path: plane.kubeconfigPath });
      client = createApiClient(config, { ...shared, userAgent: "kip/test" });
      driver = cells.cloud.open({ owner: controllerID });
    },
    { timeout: 900_000 },
  );

  /** No node runs the pods of the Deployment. A kip in this process runs instead. */
  beforeEach(async () => {
    progress = [];
    await plane.kubectl(["apply", "-k", manifests]);
    await plane.kubectl(["scale", "deployment/kip", "-n", "kip-system", "--replicas=2"]);
    await plane.kubectl(["apply", "-f", "-"], { input: JSON.stringify(processPod) });
    kip ??= await runKip();
    await plane.kubectl(["uncordon", nodeName]);
  });

  after(async () => {
    await stopKip();
    client?.close();
    await driver?.[Symbol.asyncDispose]();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    await endSharedControlPlane(directory);
    folder.remove();
  });

  async function runKip(): Promise<AsyncDisposable> {
    return await startSimulatedNode({
      client,
      driver,
      controllerID,
      clusterID,
      nodeName,
      logDir: path.join(folder.path, "logs"),
      // Other parts notice within seconds that it is silent.
      intervals: { leaseMs: 1000, leaseDurationMs: 4000 },
    });
  }

  async function stopKip(): Promise<void> {
    const running = kip;
    kip = undefined;
    await running?.[Symbol.asyncDispose]();
  }

  const uninstall = async (more: Partial<UninstallOptions> = {}) =>
    await uninstallNode({
      ...shared,
      client,
      driver,
      controllerID,
      clusterID,
      nodeName,
      deployment,
      stopsKip: true,
      endsPods: false,
      currentTerm: new CurrentTerm(),
      signal: new AbortController().signal,
      onProgress: (message) => void progress.push(message),
      ...more,
    });

  /**
   * Ends kip when its Deployment is stopped. Like with a kubelet, its pod is removed after it has ended. Until then it renews
   * its Leases.
   */
  const withStop = (message: string): void => {
    progress.push(message);
    if (message.startsWith("Stopping"))
      void stopKip().then(() => plane.kubectl(["delete", "pod/process", "-n", "kip-system"]));
  };

  /** Creates pods on the node, with or without a controller. */
  async function runPods(kind: "alone" | "owned", namespace: string): Promise<void> {
    const spec = {
      nodeSelector: { "kubernetes.io/hostname": nodeName },
      // A toleration for everything would bind the pod to the node again while it is drained.
      tolerations: [{ key: "virtual-kubelet.io/provider", operator: "Exists" }],
      containers: [{ name: "web", image: "example.test/web:1" }],
    };
    const metadata = { name: "web", namespace, labels: { app: "web" } };
    const alone = { apiVersion: "v1", kind: "Pod", metadata, spec };
    const template = { metadata: { labels: metadata.labels }, spec };
    const selector = { matchLabels: metadata.labels };
    const owned = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata,
      spec: { replicas: 1, selector, template },
    };
    const input = JSON.stringify(kind === "alone" ? alone : owned);
    await plane.kubectl(["apply", "-f", "-"], { input });
    const wait = ["wait", "-n", namespace, "--for=condition=Ready", "pod", "-l", "app=web"];
    await eventually(
      async () => (await plane.kubectl(["get", "pods", "-n", namespace, "-o", "name"])) !== "",
      { what: "the pod", limitMs: 60_000, intervalMs: 100 },
    );
    await plane.kubectl([...wait, "--timeout=60s"]);
  }

  const isCordoned = async (): Promise<boolean> =>
    (await plane.kubectl(["get", "node", nodeName])).includes("SchedulingDisabled");
  const untilReported = async (pattern: RegExp): Promise<void> =>
    await eventually(() => progress.some((line) => pattern.test(line)), {
      what: `progress ${pattern}`,
      limitMs: 60_000,
      intervalMs: 50,
    });

  it("refuses while a kip runs, and to lose pods, and has changed nothing then", async () => {
    const namespace = await plane.createNamespace("alone");
    await runPods("alone", namespace);
    const byDefault = uninstall({ stopsKip: false });
    await assert.rejects(byDefault, { code: "NODE_RUNNING", remedy: /--stop-kip/ });
    const found = { code: "NODE_IN_USE", message: /pods that nothing replaces: alone\S*\/web$/ };
    await assert.rejects(uninstall(), found);
    const other = uninstall({ nodeName: "other" });
    await assert.rejects(other, { code: "NODE_RUNNING", message: /it runs node "kip"/ });
    assert.equal(await isCordoned(), false);
    assert.equal((await driver.list()).length, 1);
    await plane.kubectl(["delete", "pod", "web", "-n", namespace]);
  });

  it("reports that nothing ends the pods when kip stops meanwhile", async () => {
    const namespace = await plane.createNamespace("stopped");
    await runPods("owned", namespace);
    const budget = ["create", "poddisruptionbudget", "web", "-n", namespace, "--selector=app=web"];
    await plane.kubectl([...budget, "--min-available=1"]);
    const removal = uninstall();
    removal.catch(() => {}); // awaited below
    await untilReported(/^Pod stopped\S*\/web-\S+ stays for now: .*disruption budget/);
    await stopKip();
    await assert.rejects(removal, { code: "NODE_IN_USE", message: /kip stopped meanwhile/ });
    await assert.rejects(uninstall(), { code: "NODE_IN_USE", message: /have not ended/ });
    const kept = ["get", "deployment/kip", "-n", "kip-system", "-o", "jsonpath={.spec.replicas}"];
    assert.equal(await plane.kubectl(kept), "2", "its kip may start again");
    kip = await runKip();
    await plane.kubectl(["delete", "namespace", namespace]);
  });

  it("moves the pods within their budgets, stops kip, and leaves nothing", async () => {
    const namespace = await plane.createNamespace("moved");
    await runPods("owned", namespace);
    const budget = ["create", "poddisruptionbudget", "web", "-n", namespace, "--selector=app=web"];
    await plane.kubectl([...budget, "--min-available=1"]);
    const interruption = new AbortController();
    const interrupted = uninstall({ signal: interruption.signal });
    interrupted.catch(() => {}); // awaited below
    await untilReported(/stays for now/);
    interruption.abort(new Error("SIGINT received"));
    await assert.rejects(interrupted, /SIGINT received/);
    assert.ok(await isCordoned());
    assert.equal((await driver.list()).length, 1, "the pod runs on");

    progress = [];
    const removal = uninstall({ onProgress: withStop });
    await untilReported(/stays for now/);
    await plane.kubectl(["delete", "poddisruptionbudget", "web", "-n", namespace]);
    assert.deepEqual(await removal, { isClean: true, stillUsedBy: undefined });
    assert.ok(!progress.some((line) => line.startsWith("Ending instance")), "kip ended it");
    await expectNothing();
    assert.deepEqual(await uninstall(), { isClean: true, stillUsedBy: undefined }, "repeated");
    await plane.kubectl(["delete", "namespace", namespace]);
  });

  it("leaves the Cell resource to another kip of the cluster", async () => {
    const lease = createLeaderLease({
      ...shared,
      client,
      namespace: "kube-node-lease",
      name: "other.kip",
      identity: `host_${randomUUID()}`,
      durationMs: 5000,
    });
    const term = await lease.acquire(new AbortController().signal);
    const { stillUsedBy } = await uninstall({ onProgress: withStop });
    assert.equal(stillUsedBy, "the kip that holds Lease kube-node-lease/other.kip");
    assert.match(await plane.kubectl(["get", "crd", "-o", "name"]), /cells\.kip/);
    await term.release(false);
    assert.equal((await uninstall()).stillUsedBy, undefined, "its kip is gone");
    await client.delete(paths.leases("kube-node-lease", "other.kip"));
    await expectNothing();
    await installCells(client); // it can be installed again at once
  });

  async function expectNothing(): Promise<void> {
    const left = await findLeftOvers({ client, driver, controllerID, clusterID });
    assert.deepEqual(left, { instances: [], volumes: [], hosts: [], cells: [] });
    const names = async (...what: readonly string[]): Promise<string> =>
      await plane.kubectl(["get", ...what, "-A", "-o", "name"]);
    assert.doesNotMatch(await names("nodes"), /kip/);
    assert.doesNotMatch(await names("leases"), /\/kip/);
    assert.doesNotMatch(await names("secrets"), /kip-cell-ca/);
    assert.doesNotMatch(await names("crd"), /cells\.kip/);
  }
});
