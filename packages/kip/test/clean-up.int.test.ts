// The removal of a node with a real API server: its machines and Cells are removed, and those of other nodes stay.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { silentLogger, systemClock } from "@kip/base";
import type { CloudDriver } from "@kip/cloud";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, type ApiClient } from "@kip/k8s-client";
import { temporaryFolder } from "@kip/testing";
import { cleanUpInTurn, type CleanUpInTurnOptions } from "../src/cleanup/clean-up-in-turn.ts";
import { findLeftOvers } from "../src/cleanup/left-overs.ts";
import { CurrentTerm } from "../src/replicas/current-term.ts";
import { CellStore } from "../src/store/cell-store.ts";
import { openSimulatedCells } from "./simulated-cells.ts";
import { startSimulatedNode } from "./simulated-node.ts";

const controllerID = "removed";
const clusterID = "this-cluster";
const nodeName = "removed";
const machine = {
  instanceType: "sim.1",
  launchType: "on-demand",
  image: "cell",
  rootDiskBytes: 0,
} as const;
const folder = temporaryFolder();
const shared = { clock: systemClock, logger: silentLogger };
const cells = openSimulatedCells(3);

describe("the removal of a node", { timeout: 300_000 }, () => {
  let plane: SharedControlPlane;
  let client: ApiClient;
  let driver: CloudDriver;
  let kubectl: (...args: readonly string[]) => Promise<string>;
  const progress: string[] = [];

  before(
    async () => {
      plane = await sharedControlPlane();
      const namespace = await plane.createNamespace("removed");
      kubectl = async (...args) => await plane.kubectl(["-n", namespace, ...args]);
      const config = await loadKubeConfig({ path: plane.kubeconfigPath });
      client = createApiClient(config, { ...shared, userAgent: "kip/test" });
      driver = cells.cloud.open({ owner: controllerID });
    },
    { timeout: 900_000 },
  );

  after(async () => {
    const store = client && new CellStore(client);
    for (const cell of (await store?.list()) ?? [])
      if (cell.spec.controllerID === controllerID) await store?.remove(cell);
    client?.close();
    await cells[Symbol.asyncDispose]();
    await plane?.[Symbol.asyncDispose]();
    folder.remove();
  });

  const options = (more: Partial<CleanUpInTurnOptions> = {}): CleanUpInTurnOptions => ({
    ...shared,
    client,
    driver,
    controllerID,
    clusterID,
    nodeName,
    endsPods: false,
    currentTerm: new CurrentTerm(),
    signal: new AbortController().signal,
    onProgress: (message) => void progress.push(message),
    ...more,
  });
  const setLease = async (seconds: number, renewTime: string): Promise<void> => {
    const spec = { leaseDurationSeconds: seconds, renewTime };
    const patch = `--patch=${JSON.stringify({ spec })}`;
    await kubectl("-n", "kube-node-lease", "patch", "lease", nodeName, "--type=merge", patch);
  };
  const launch = async (token: string, cluster = clusterID): Promise<string> => {
    const tags = { "kip-cluster": cluster };
    const request = {
      ...machine,
      token,
      name: token,
      userData: new Uint8Array(),
      privateIpOnly: true,
      tags,
    };
    return (await driver.launch(request)).id;
  };

  it("ends its instances and those without a Cell, and leaves those of other nodes", async () => {
    await runUntilPodIsReady();
    const store = new CellStore(client);
    const other = await store.create({
      ...machine,
      podRef: { namespace: "elsewhere", name: "web", uid: "u1" },
      nodeName: "other",
      controllerID,
      privateIPOnly: true,
      pricePerHour: 0,
      attempt: 0,
      restartCounts: {},
    });
    const theirs = await launch(other.metadata.uid);
    const foreign = await launch("of-another-cluster", "another-cluster");
    await launch("without-a-cell");
    const volume = await driver.createVolume({
      token: "v",
      name: "v",
      sizeBytes: 2 ** 20,
      tags: {},
    });
    assert.equal((await findLeftOvers(options())).instances.length, 4);

    await setLease(1, "2030-01-01T00:00:00.000000Z");
    const renewing = {
      ...systemClock,
      now: () => Date.parse("2030-01-01T00:00:10Z"),
      sleep: async () => await setLease(1, "2030-01-01T00:00:10.000000Z"),
    };
    await assert.rejects(cleanUpInTurn(options({ clock: renewing })), { code: "NODE_RUNNING" });
    await setLease(1, "2020-01-01T00:00:00.000000Z");
    await assert.rejects(cleanUpInTurn(options()), {
      code: "NODE_IN_USE",
      message: /removed.*web/,
    });
    assert.equal((await driver.list()).length, 4, "nothing has changed");

    assert.equal(await cleanUpInTurn(options({ endsPods: true })), true);
    const left = await findLeftOvers(options());
    assert.deepEqual(
      left.instances.map(({ id }) => id),
      [theirs, foreign],
    );
    assert.deepEqual(left.volumes, [volume]);
    assert.deepEqual(
      left.cells.map(({ metadata }) => metadata.name),
      [other.metadata.name],
    );
    assert.equal(await kubectl("get", "node", nodeName, "--ignore-not-found"), "");
    const leases = await kubectl("-n", "kube-node-lease", "get", "leases", "-o", "name");
    assert.ok(!leases.includes("removed.kip"), leases);
    assert.equal(await cleanUpInTurn(options({ endsPods: true })), true, "it may be repeated");
    assert.ok(progress.some((line) => line.includes("Ending instance")));
  });

  /** Runs a kip with a pod. Kip has ended when this resolves. */
  async function runUntilPodIsReady(): Promise<void> {
    const options = { client, driver, controllerID, clusterID, nodeName };
    await using _node = await startSimulatedNode({
      ...options,
      logDir: path.join(folder.path, "logs"),
    });
    const overrides = { spec: { nodeName, tolerations: [{ operator: "Exists" }] } };
    const image = "--image=example.test/web:1";
    await kubectl("run", "web", image, `--overrides=${JSON.stringify(overrides)}`);
    await kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s");
  }
});
