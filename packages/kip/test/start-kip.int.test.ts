import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger, systemClock } from "@kip/base";
import { createSimulatedCloud } from "@kip/cloud/simulated";
import { sharedControlPlane, type SharedControlPlane } from "@kip/control-plane/testing";
import { createApiClient, loadKubeConfig, paths, type ApiClient } from "@kip/k8s-client";
import type { Event, Node, Pod } from "@kip/k8s-types";
import { temporaryFolder } from "@kip/testing";
import { startNode } from "@kip/virtual-kubelet";
import { decodeProviderConfig } from "../src/config/provider-config.ts";
import { startKip } from "../src/start-kip.ts";
import type { Cell } from "../src/state/cell.ts";

let plane: SharedControlPlane;
let admin: ApiClient;
/** With the permissions of kip. */
let client: ApiClient;

before(
  async () => {
    plane = await sharedControlPlane();
    const open = async (path: string): Promise<ApiClient> =>
      createApiClient(await loadKubeConfig({ path }), {
        userAgent: "test/1",
        logger: silentLogger,
        clock: systemClock,
      });
    admin = await open(plane.kubeconfigPath);
    client = await open(plane.kipKubeconfigPath);
  },
  { timeout: 900_000 },
);

after(async () => {
  admin?.close();
  client?.close();
  await plane?.[Symbol.asyncDispose]();
});

function configOf(rack: string, nametag: string) {
  return decodeProviderConfig({
    cloud: { local: {} },
    cells: { nametag },
    kubelet: { labels: { rack }, cpu: rack === "a" ? "4" : "6" },
  });
}

/** A virtual node with simulated machines that run no agent. */
async function start() {
  const namespace = await plane.createNamespace("start-kip");
  const stack = new AsyncDisposableStack();
  const folder = stack.use(temporaryFolder());
  const driver = stack.use(createSimulatedCloud().open({ owner: namespace }));
  const common = { client, nodeName: namespace, clock: systemClock, logger: silentLogger };
  const kip = stack.use(
    await startKip({
      ...common,
      driver,
      config: configOf("a", "first"),
      controllerID: namespace,
      nodeIps: ["192.0.2.1"],
      clusterDns: ["192.0.2.10"],
      logDir: folder.path,
    }),
  );
  stack.use(await startNode({ ...common, provider: kip.provider }));
  stack.defer(async () => {
    for (const { metadata } of (await admin.list<Pod>(paths.pods(namespace))).items)
      await admin.delete(paths.pods(namespace, metadata.name), { graceSeconds: 0 });
    for (const { id } of await driver.list()) await driver.terminate(id);
    await admin.delete(paths.nodes(namespace));
  });
  return { namespace, driver, kip, stack };
}

async function createPod(
  namespace: string,
  name: string,
  annotations: Readonly<Record<string, string>>,
): Promise<void> {
  await admin.create(paths.pods(namespace), {
    metadata: { name, annotations },
    spec: { nodeName: namespace, containers: [{ name: "main", image: "i" }] },
  });
}

async function eventually<T>(read: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await read();
    if (found !== undefined) return found;
    await sleep(100);
  }
}

describe("startKip() with an API server", { timeout: 180_000 }, () => {
  it("takes labels, capacity and the tag of machines of another configuration while it runs", async () => {
    const { namespace, driver, kip, stack } = await start();
    await using _all = stack;
    const nodeWith = async (rack: string): Promise<Node> =>
      await eventually(async () => {
        const node = await admin.get<Node>(paths.nodes(namespace));
        return node.metadata?.labels?.["rack"] === rack ? node : undefined;
      });
    const tagOf = async (pod: string): Promise<string | undefined> =>
      await eventually(async () => {
        const found = (await driver.list()).find(({ tags }) => tags["kip-pod-name"] === pod);
        return found?.tags["kip-nametag"];
      });
    const before = await nodeWith("a");
    assert.equal(before.status?.capacity?.["cpu"], "4");
    await createPod(namespace, "before", {});
    assert.equal(await tagOf("before"), "first");
    await kip.reconfigure(configOf("b", "second"));
    const changed = await eventually(async () => {
      const node = await nodeWith("b");
      return node.status?.capacity?.["cpu"] === "6" ? node : undefined;
    });
    assert.equal(changed.status?.nodeInfo?.bootID, before.status?.nodeInfo?.bootID);
    await createPod(namespace, "after", {});
    assert.equal(await tagOf("after"), "second");
    assert.equal(await tagOf("before"), "first");
  });

  it("says in an event which annotation has no effect", async () => {
    const { namespace, stack } = await start();
    await using _all = stack;
    const key = "pod.elotl.co/security-groups";
    await createPod(namespace, "web", { [key]: "sg-1" });
    const { message, type } = await eventually(async () => {
      const { items } = await admin.list<Event>(paths.events(namespace));
      return items.find(({ reason }) => reason === "AnnotationIgnored");
    });
    assert.deepEqual([type, message?.startsWith(`${key} has no effect: `)], ["Warning", true]);
    const { items } = await admin.list<Cell>(paths.cells());
    const cell = items.find(({ spec }) => spec.podRef.namespace === namespace);
    assert.equal(cell?.spec.nodeName, namespace);
  });
});
