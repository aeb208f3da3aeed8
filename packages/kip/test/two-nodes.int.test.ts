// Two virtual nodes of one installation at once, with a real API server. Neither touches the other's cells until the other is
// gone for good.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";
import { temporaryFolder } from "@kip/testing";
import { GoneNodes } from "../src/collect/gone-nodes.ts";
import { OrphanInstances } from "../src/collect/orphan-instances.ts";
import { CellStore } from "../src/store/cell-store.ts";
import { openSimulatedCells } from "./simulated-cells.ts";
import { startSimulatedNode } from "./simulated-node.ts";

const installation = { controllerID: "two-nodes", clusterID: "this-cluster" };
const nodes = ["first-of-two", "second-of-two"] as const;
const [first, second] = nodes;
const folder = temporaryFolder();
const shared = { clock: systemClock, logger: silentLogger };
const cells = openSimulatedCells(4);
const { signal } = new AbortController();

describe("two nodes of one installation", { timeout: 300_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let driver: CloudDriver;
  let kubectl: (...args: readonly string[]) => Promise<string>;
  const running = new Map<string, AsyncDisposableStack>();

  before(
    async () => {
      plane = await sharedControlPlane();
      const namespace = await plane.createNamespace("two-nodes");
      kubectl = async (...args) => await plane.kubectl(["-n", namespace, ...args]);
      const config = await loadKubeConfig({ path: plane.kubeconfigPath });
      client = createApiClient(config, { ...shared, userAgent: "kip/test" });
      driver = cells.cloud.open({ owner: installation.controllerID });
    },
    { timeout: 900_000 },
  );

  after(async () => {
    for (const stack of running.values()) await stack.disposeAsync();
    for (const node of nodes) await plane?.kubectl(["delete", "node", node, "--ignore-not-found"]);
    const store = client && new CellStore(client);
    for (const cell of (await store?.list()) ?? [])
      if (cell.spec.controllerID === installation.controllerID) await store?.remove(cell);
    client?.close();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  /** Starts a kip with its own connection to the cloud. */
  async function start(nodeName: string): Promise<void> {
    const stack = new AsyncDisposableStack();
    running.set(nodeName, stack);
    const driver = stack.use(cells.cloud.open({ owner: installation.controllerID }));
    const logDir = path.join(folder.path, nodeName);
    stack.use(await startSimulatedNode({ ...installation, client, driver, nodeName, logDir }));
  }

  const run = async (pod: string, nodeName: string): Promise<void> => {
    const overrides = { spec: { nodeName, tolerations: [{ operator: "Exists" }] } };
    const image = "--image=example.test/web:1";
    await kubectl("run", pod, image, `--overrides=${JSON.stringify(overrides)}`);
    await kubectl("wait", "--for=condition=Ready", `pod/${pod}`, "--timeout=60s");
  };

  const pods = ["a", "b", "c"].flatMap((name) =>
    nodes.map((node) => ({ name: `${name}-${node}`, node })),
  );

  /** The instances of a node, by the Cell of their launch. */
  async function instancesOf(nodeName: string): Promise<readonly string[]> {
    const all = await new CellStore(client).list();
    const tokens = all.filter(({ spec }) => spec.nodeName === nodeName);
    const uids = new Set(tokens.map(({ metadata }) => metadata.uid));
    return (await driver.list()).filter(({ token }) => uids.has(token)).map(({ id }) => id);
  }

  /** Looks for removed nodes for an hour, like the kip of the second node. */
  async function lookForAnHour(): Promise<void> {
    let minutes = 0;
    const clock = {
      ...systemClock,
      monotonic: () => systemClock.monotonic() + minutes * 60_000,
    };
    const subject = new GoneNodes({
      ...installation,
      client,
      driver,
      nodeName: second,
      clock,
      logger: silentLogger,
    });
    for (; minutes <= 60; minutes += 20) await subject.look(signal);
  }

  it("run their pods side by side, each on cells of its own", async () => {
    await Promise.all(nodes.map(start));
    await Promise.all(pods.map(async ({ name, node }) => await run(name, node)));
    for (const node of nodes) assert.equal((await instancesOf(node)).length, 3, node);
    assert.equal((await driver.list()).length, pods.length);
    const store = new CellStore(client);
    const metrics = { orphanTermination: () => {} };
    const orphans = new OrphanInstances({ ...shared, ...installation, driver, store, metrics });
    assert.equal(await orphans.collect(), 0, "each kip knows the Cells of both");
  });

  it("leave the cells of a node whose kip does not run", async () => {
    await running.get(first)?.disposeAsync();
    await lookForAnHour();
    assert.equal((await driver.list()).length, pods.length);
  });

  it("end the cells of a node that was deleted, and no others", async () => {
    await plane.kubectl(["delete", "node", first]);
    const theirs = pods.filter(({ node }) => node === first).map(({ name }) => name);
    await kubectl("delete", "pod", "--force", "--grace-period=0", ...theirs);
    const kept = await instancesOf(second);
    await lookForAnHour();
    assert.deepEqual(
      (await driver.list()).map(({ id }) => id),
      kept,
    );
    const left = (await new CellStore(client).list()).map(({ spec }) => spec);
    const ofBoth = left.filter(({ controllerID }) => controllerID === installation.controllerID);
    assert.deepEqual([...new Set(ofBoth.map(({ nodeName }) => nodeName))], [second]);
    const phases = await kubectl("get", "pods", "-o", "jsonpath={.items[*].status.phase}");
    assert.equal(phases, "Running Running Running");
  });

  it("give a node that comes back under its name new cells", async () => {
    await start(first);
    await run("again", first);
    assert.equal((await instancesOf(first)).length, 1);
  });
});
