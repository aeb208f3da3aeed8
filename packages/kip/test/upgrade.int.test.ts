// A newer kip takes over the pods of an older version from this repository's history, with a real API server and simulated
// machines whose agents listen on loopback.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";
import { olderVersion, temporaryFolder, unpackVersion } from "@kip/testing";
import { startNode } from "@kip/virtual-kubelet";
import { decodeProviderConfig } from "../src/config/provider-config.ts";
import { startKip } from "../src/start-kip.ts";
import { CellStore } from "../src/store/cell-store.ts";
import { openSimulatedCells } from "./simulated-cells.ts";

const nodeName = "upgraded";
const shared = { clock: systemClock, logger: silentLogger };
const folder = temporaryFolder();
const cells = openSimulatedCells(9);
const commit = olderVersion(process.env["KIP_UPGRADE_FROM"]);

/** The parts of kip with which a version runs a node. */
interface Version {
  readonly startKip: typeof startKip;
  readonly startNode: typeof startNode;
  readonly decodeProviderConfig: typeof decodeProviderConfig;
  /** Its own version, because errors are recognized by their class. */
  readonly createApiClient: typeof createApiClient;
  readonly loadKubeConfig: typeof loadKubeConfig;
}

const newer: Version = {
  startKip,
  startNode,
  decodeProviderConfig,
  createApiClient,
  loadKubeConfig,
};

/** The parts of the older version, as far as its interfaces are used here. */
async function loadOlder(): Promise<Version> {
  const where = path.join(folder.path, "older");
  unpackVersion(commit ?? "", where);
  const load = async (file: string): Promise<Version> =>
    (await import(path.join(where, "packages", file))) as Version; // checked by its own version's compiler
  const files = [
    "kip/src/start-kip.ts",
    "kip/src/config/provider-config.ts",
    "virtual-kubelet/src/index.ts",
    "k8s-client/src/index.ts",
  ];
  return Object.assign({}, newer, ...(await Promise.all(files.map(load)))) as Version;
}

describe(
  "an upgrade of kip",
  { timeout: 170_000, skip: commit === undefined && "this folder has no history of commits" },
  () => {
    let plane: SharedControlPlane;
    let client: ApiClient;
    let driver: CloudDriver;
    let older: Version;
    let kubectl: (...args: readonly string[]) => Promise<string>;

    before(
      async () => {
        plane = await sharedControlPlane();
        const namespace = await plane.createNamespace("upgrade");
        kubectl = async (...args) => await plane.kubectl(["-n", namespace, ...args]);
        const config = await loadKubeConfig({ path: plane.kubeconfigPath });
        client = createApiClient(config, { ...shared, userAgent: "kip/test" });
        driver = cells.cloud.open({ owner: nodeName });
        older = await loadOlder();
        assert.notEqual(older.startKip, newer.startKip);
        assert.notEqual(older.startNode, newer.startNode);
      },
      { timeout: 900_000 },
    );

    after(async () => {
      const store = client && new CellStore(client);
      for (const cell of (await store?.list()) ?? [])
        if (cell.spec.nodeName === nodeName) await store?.remove(cell);
      client?.close();
      await driver?.[Symbol.asyncDispose]();
      await cells[Symbol.asyncDispose]();
      await plane?.[Symbol.asyncDispose]();
      folder.remove();
    });

    async function start(version: Version): Promise<AsyncDisposable> {
      const stack = new AsyncDisposableStack();
      const kubeconfig = await version.loadKubeConfig({ path: plane.kubeconfigPath });
      const own = version.createApiClient(kubeconfig, { ...shared, userAgent: "kip/test" });
      stack.defer(() => own.close());
      const kip = await version.startKip({
        ...shared,
        client: own,
        driver,
        controllerID: nodeName,
        clusterID: "cluster",
        nodeName,
        config: version.decodeProviderConfig({
          cloud: { local: {} },
          cells: { bootImageSpec: { name: "cell" }, defaultInstanceType: "sim.1" },
        }),
        nodeIps: ["127.0.0.1"],
        clusterDns: [],
        logDir: path.join(folder.path, "logs"),
      });
      stack.use(kip);
      stack.use(
        await version.startNode({ ...shared, client: own, nodeName, provider: kip.provider }),
      );
      return stack;
    }

    async function run(pod: string): Promise<void> {
      const overrides = { spec: { nodeName, tolerations: [{ operator: "Exists" }] } };
      const image = "--image=example.test/web:1";
      await kubectl("run", pod, image, `--overrides=${JSON.stringify(overrides)}`);
      await kubectl("wait", "--for=condition=Ready", `pod/${pod}`, "--timeout=60s");
    }

    /** The values that change when a pod starts again. */
    async function identity(pod: string): Promise<object> {
      const { metadata, status } = JSON.parse(await kubectl("get", "pod", pod, "-o", "json"));
      const { phase, podIP, startTime, containerStatuses } = status;
      return { uid: metadata.uid, phase, podIP, startTime, containerStatuses };
    }

    it(`takes over pods of ${commit?.slice(0, 8)} with their machines, none of which starts again`, async () => {
      const before = await start(older);
      for (const pod of ["web", "db"]) await run(pod);
      const pods = await Promise.all(["web", "db"].map(identity));
      const machines = (await driver.list()).map(({ id }) => id).sort();
      assert.equal(machines.length, 2);
      await before[Symbol.asyncDispose]();

      await using _after = await start(newer);
      // It responds once it is connected to each pod's machine.
      await run("new");
      await kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s");
      assert.deepEqual(await Promise.all(["web", "db"].map(identity)), pods);
      const now = (await driver.list()).map(({ id }) => id);
      assert.ok(machines.every((id) => now.includes(id)));
      assert.equal(now.length, 3);
      const events = await kubectl("get", "events", "-o", "jsonpath={.items[*].reason}");
      assert.doesNotMatch(events, /CellLost|BackOff|Failed/);

      await kubectl("delete", "pod", "--all", "--timeout=60s");
      assert.deepEqual(await driver.list(), []);
    });
  },
);
