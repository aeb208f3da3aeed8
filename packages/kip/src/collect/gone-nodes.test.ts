import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { createLogger, silentLogger } from "@kip/base";
import { wrapOperations, type CloudDriver } from "@kip/cloud";
import { createSimulatedCloud, type SimulatedCloud } from "@kip/cloud/simulated";
import { createLeaderLease, K8sError, paths, wrapRequests } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { runOneTurn } from "../replicas/run-one-turn.ts";
import { turnLease, turnNamespace } from "../replicas/run-in-turns.ts";
import type { Cell } from "../state/cell.ts";
import { CellStore } from "../store/cell-store.ts";
import { ApiServer } from "../testing/faults/api-server.ts";
import { settled } from "../testing/settled.ts";
import { GoneNodes } from "./gone-nodes.ts";

const machine = { instanceType: "sim.1", launchType: "on-demand", image: "cell" } as const;
const { signal } = new AbortController();

let clock: ManualClock;
let api: ApiServer;
let cloud: SimulatedCloud;
let driver: CloudDriver;
let logged: string[];
/** The requests that fail. */
let failing: string | undefined;
let subject: GoneNodes;

beforeEach(() => {
  clock = new ManualClock();
  api = new ApiServer(clock);
  cloud = createSimulatedCloud({ clock });
  driver = cloud.open({ owner: "us" });
  logged = [];
  failing = undefined;
  subject = goneNodes("ours");
});

function goneNodes(nodeName: string): GoneNodes {
  const client = wrapRequests(api.client, async (verb, send) => {
    if (verb === failing) throw new K8sError("K8S_UNAVAILABLE", "The API server is away");
    return await send();
  });
  const logger = createLogger({ level: "info", write: (line) => void logged.push(line) });
  const installation = { controllerID: "us", clusterID: "here" };
  return new GoneNodes({ client, driver, nodeName, ...installation, clock, logger });
}

/** A Cell of a node, with its instance. */
async function cellOf(
  nodeName: string,
  { controllerID = "us", owner = driver, cluster = "here", isLaunched = true } = {},
): Promise<Cell> {
  const uid = `pod-${nodeName}-${api.cells().length}`;
  const cell = await new CellStore(api.client).create({
    ...machine,
    rootDiskBytes: 0,
    podRef: { namespace: "default", name: uid, uid },
    nodeName,
    controllerID,
    privateIPOnly: true,
    pricePerHour: 0,
    attempt: 0,
    restartCounts: {},
  });
  if (!isLaunched) return cell;
  const { uid: token, name } = cell.metadata;
  const tags = { "kip-cluster": cluster };
  const userData = new Uint8Array();
  await settled(
    owner.launch({
      ...machine,
      rootDiskBytes: 0,
      token,
      name,
      userData,
      privateIpOnly: true,
      tags,
    }),
    clock,
  );
  return cell;
}

async function createNode(name: string): Promise<void> {
  await api.client.create(paths.nodes(), { metadata: { name } });
}

async function bindPod(nodeName: string, phase: string): Promise<void> {
  const pod = { metadata: { name: "web" }, spec: { nodeName }, status: { phase } };
  await api.client.create(paths.pods("default"), pod);
}

/** Checks as often as kip does. */
async function lookFor(minutes: number): Promise<void> {
  for (let minute = 0; minute <= minutes; minute += 5) {
    await settled(subject.look(signal), clock);
    await clock.advance(300_000);
  }
}

function cellNames(): string[] {
  return api.cells().map(({ metadata }) => metadata.name);
}

describe("GoneNodes", () => {
  it("ends the cells of a node without a sign of life for ten minutes, and not before", async () => {
    await cellOf("gone");
    await bindPod("gone", "Succeeded");
    const ours = await cellOf("ours");
    await createNode("ours");
    await lookFor(5);
    assert.equal((await driver.list()).length, 2);
    await lookFor(5);
    assert.deepEqual(cellNames(), [ours.metadata.name]);
    const left = (await driver.list()).map(({ token }) => token);
    assert.deepEqual(left, [ours.metadata.uid]);
    assert.match(logged.join(""), /Ended a cell of a node that is gone.*"node":"gone"/);
  });

  it("leaves those of its own node, also where its Node was deleted", async () => {
    await cellOf("ours");
    await lookFor(60);
    assert.equal((await driver.list()).length, 1);
  });

  it("leaves those of a node that is there, ready or not", async () => {
    await cellOf("away");
    await createNode("away");
    await lookFor(60);
    assert.equal((await driver.list()).length, 1);
  });

  it("leaves those of a node that has a pod that has not ended", async () => {
    await cellOf("deleted");
    await bindPod("deleted", "Running");
    await lookFor(60);
    assert.equal((await driver.list()).length, 1);
  });

  it("leaves those of a node whose kip holds its Lease, or renews that of the node", async () => {
    await cellOf("starting");
    const lease = createLeaderLease({
      client: api.client,
      namespace: turnNamespace,
      name: turnLease("starting"),
      identity: "its kip",
      durationMs: 15_000,
      clock,
      logger: silentLogger,
    });
    const term = await lease.acquire(signal);
    await lookFor(60);
    assert.equal((await driver.list()).length, 1, "the kip takes turns");
    await term.release(true);

    const path = paths.leases(turnNamespace, "starting");
    await api.client.create(paths.leases(turnNamespace), { metadata: { name: "starting" } });
    for (let renewals = 0; renewals < 12; renewals++) {
      await lookFor(0);
      await api.client.patch(path, { spec: { renewals } }, "merge");
    }
    assert.equal((await driver.list()).length, 1, "the kip takes no turns");
    await lookFor(15);
    assert.deepEqual(await driver.list(), []);
  });

  it("says what to do where it may not take the turn of the node", async () => {
    await cellOf("gone");
    // A kip that has handed over leaves it like this.
    const lease = { metadata: { name: turnLease("gone") }, spec: { holderIdentity: "" } };
    await api.client.create(paths.leases(turnNamespace), lease);
    failing = "PUT";
    await lookFor(15);
    assert.equal((await driver.list()).length, 1);
    assert.match(logged.join(""), /its Lease was not to be had.*kip cleanup --nodename=gone/);
    failing = undefined;
    await lookFor(0);
    assert.equal((await driver.list()).length, 0);
  });

  it("begins to count again when there was a sign of life", async () => {
    await cellOf("gone");
    await lookFor(5);
    await createNode("gone");
    await lookFor(0);
    await api.client.delete(paths.nodes("gone"));
    await lookFor(5);
    assert.equal((await driver.list()).length, 1);
    await lookFor(5);
    assert.deepEqual(await driver.list(), []);
  });

  it("leaves Cells of another installation, and those whose instance is not known to be theirs", async () => {
    await cellOf("gone", { controllerID: "them" });
    await cellOf("gone", { owner: cloud.open({ owner: "them" }) });
    await cellOf("gone", { cluster: "there" });
    await cellOf("gone", { isLaunched: false });
    const before = cellNames();
    await lookFor(60);
    assert.deepEqual(cellNames(), before);
    assert.equal((await driver.list()).length, 2);
    assert.match(logged.join(""), /Left a Cell.*kip cleanup --nodename=gone/);
  });

  it("removes the Cell of an instance that it has ended before, and only that kip does", async () => {
    const { metadata } = await cellOf("gone");
    await lookFor(5);
    failing = "DELETE";
    await lookFor(0);
    failing = undefined;
    assert.deepEqual(await driver.list(), []);
    const status = { phase: "Terminating", reason: "NodeGone" };
    assert.partialDeepStrictEqual(api.cells(), [{ metadata: { uid: metadata.uid }, status }]);
    const [own, other] = [subject, goneNodes("another")];
    subject = other;
    await lookFor(60);
    assert.equal(api.cells().length, 1, "it may have another cloud");
    subject = own;
    await lookFor(10);
    assert.deepEqual(cellNames(), []);
  });

  it("hands a node's turn over while an instance does not end, and ends those of others", async () => {
    const stuck = await cellOf("a-stuck");
    await cellOf("b-other");
    const endless = (await driver.list()).find(({ token }) => token === stuck.metadata.uid)?.id;
    let isStuck = true;
    driver = wrapOperations(driver, ["waitForTerminated"], async (_operation, call, args) => {
      const [id, ending] = args as Parameters<CloudDriver["waitForTerminated"]>;
      if (isStuck && id === endless) await clock.sleep(Number.POSITIVE_INFINITY, ending);
      return await call(...args);
    });
    subject = goneNodes("ours");
    await lookFor(10);
    assert.deepEqual(cellNames(), [stuck.metadata.name]);
    const options = { client: api.client, driver, clock, logger: silentLogger, signal };
    const turn = { ...options, nodeName: "a-stuck", limitMs: 60_000 };
    assert.equal(
      await settled(
        runOneTurn(turn, async () => "a kip that is back"),
        clock,
      ),
      "a kip that is back",
    );
    isStuck = false;
    await lookFor(15);
    assert.deepEqual(cellNames(), [], "it was looked at again");
  });

  it("tries again what failed, and ends the others meanwhile", async () => {
    await Promise.all([cellOf("gone"), cellOf("gone")]);
    await cloud.faults.fail({ operation: "terminate", code: "CLOUD_THROTTLED" });
    await lookFor(10);
    assert.equal((await driver.list()).length, 1);
    await lookFor(15);
    assert.deepEqual(await driver.list(), []);
    assert.deepEqual(cellNames(), []);
  });
});
