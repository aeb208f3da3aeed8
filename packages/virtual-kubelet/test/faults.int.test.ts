import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "@kip/base";
import { createApiClient, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease, Node } from "@kip/k8s-types";
import { ManualClock, eventually } from "@kip/testing";
import { until } from "./eventually.ts";
import {
  createPod,
  isRunning,
  logger,
  nodeWith,
  podsUntil,
  useCluster,
  variants,
} from "./support/cluster.ts";
import { FaultProxy, type Fault } from "./support/fault-proxy.ts";

const cluster = useCluster();

async function throughProxy(clock = systemClock): Promise<
  {
    readonly proxy: FaultProxy;
    readonly client: ApiClient;
  } & AsyncDisposable
> {
  const proxy = await FaultProxy.open(cluster.plane.kipKubeconfigPath);
  const client = createApiClient(proxy.config(), { userAgent: "test/1", logger, clock });
  return {
    proxy,
    client,
    [Symbol.asyncDispose]: async () => {
      client.close();
      await proxy[Symbol.asyncDispose]();
    },
  };
}

/** Every tenth request fails, each time in another way. */
function everyTenth(): () => Fault | undefined {
  const faults: readonly Fault[] = [
    { status: 500 },
    "reset",
    { status: 429, retryAfterSeconds: 0 },
    "lostAnswer",
    { status: 503 },
    { status: 409 },
    { status: 504 },
  ];
  let count = 0;
  return () => (++count % 10 === 0 ? faults[(count / 10) % faults.length] : undefined);
}

for (const { name: variant, make } of variants)
  describe(`a node behind a faulty network, ${variant} provider`, () => {
    const intervals = { podBackoffMs: 20, podBackoffMaxMs: 200 };

    it("misses nothing when its watches are cut", async () => {
      await using link = await throughProxy();
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { client: link.client, intervals });
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name, name: "stays" });
      const goes = await createPod(cluster, { namespace, node: running.name, name: "goes" });
      await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
      // While the node cannot watch, one pod is deleted by force and another one is created.
      link.proxy.fault = ({ isWatch }) => (isWatch ? { status: 503 } : undefined);
      link.proxy.cutWatches();
      await cluster.admin.delete(paths.pods(namespace, "goes"), { graceSeconds: 0 });
      await createPod(cluster, { namespace, node: running.name, name: "comes" });
      link.proxy.fault = () => undefined;
      await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
      await eventually(() => !memory.pods.has(goes.metadata?.uid ?? ""));
      assert.equal(memory.pods.size, 2);
      assert.equal(memory.count("apply"), 3);
    });

    it("lists again when the version of its watch has expired (410), and removes no healthy pod", async () => {
      await using link = await throughProxy();
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { client: link.client, intervals });
      const namespace = await cluster.plane.createNamespace();
      await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
      let gone = 0;
      link.proxy.fault = ({ isWatch, url }) => {
        if (!isWatch || !url.startsWith("/api/v1/pods?") || gone >= 2) return undefined;
        gone++;
        return "gone";
      };
      link.proxy.cutWatches();
      await createPod(cluster, { namespace, node: running.name, name: "later" });
      await podsUntil(cluster, namespace, (pods) => pods.length === 2 && pods.every(isRunning));
      assert.equal(memory.count("removeUnknown") + memory.count("remove"), 0);
      assert.equal(memory.count("apply"), 2);
    });

    it("runs, changes and removes pods while every tenth request fails", async () => {
      await using link = await throughProxy();
      link.proxy.fault = everyTenth();
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, { client: link.client, intervals });
      const namespace = await cluster.plane.createNamespace();
      const names = Array.from({ length: 20 }, (_, index) => `p${index}`);
      for (const name of names) await createPod(cluster, { namespace, node: running.name, name });
      await podsUntil(cluster, namespace, (pods) => pods.length === 20 && pods.every(isRunning));
      assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
      assert.equal(memory.pods.size, 20);
      for (const name of names) await cluster.admin.delete(paths.pods(namespace, name));
      await podsUntil(cluster, namespace, (pods) => pods.length === 0);
      await eventually(() => memory.pods.size === 0);
      const failed = Math.floor(link.proxy.requests.length / 10);
      assert.ok(failed >= 8, `${failed} requests failed`);
    });

    it("leaves its pods alone while the API server is away, and resumes when it is back", async () => {
      await using link = await throughProxy();
      const { memory, provider } = make();
      await using running = await nodeWith(cluster, provider, {
        client: link.client,
        intervals: { ...intervals, sweepMs: 100, leaseMs: 250 },
      });
      const namespace = await cluster.plane.createNamespace();
      const first = await createPod(cluster, { namespace, node: running.name });
      await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
      link.proxy.goDown();
      const ended = await createPod(cluster, { namespace, node: running.name, name: "while-away" });
      memory.report(first.metadata?.uid ?? "", "Failed");
      await new Promise((resolve) => setTimeout(resolve, 600)); // some sweeps, renewals and writes fail
      assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
      link.proxy.comeUp();
      const pods = await podsUntil(cluster, namespace, (all) =>
        all.every(({ metadata, status }) =>
          metadata?.uid === ended.metadata?.uid
            ? status?.phase === "Running"
            : status?.phase === "Failed",
        ),
      );
      assert.equal(pods.length, 2);
      const times = new Set<string>();
      await until<Lease>({
        client: cluster.admin,
        path: paths.leases("kube-node-lease"),
        fieldSelector: `metadata.name=${running.name}`,
        check: ([lease]) => times.add(String(lease?.spec?.renewTime)).size > 2,
      });
    });
  });

describe("a node and time", () => {
  it("survives ten minutes in which the API server does not answer", async () => {
    const clock = new ManualClock(Date.now());
    await using link = await throughProxy(clock);
    const { memory, provider } = variants[0]?.make() ?? assert.fail();
    await using running = await nodeWith(cluster, provider, { client: link.client, clock });
    const namespace = await cluster.plane.createNamespace();
    await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    link.proxy.fault = () => "silence";
    await createPod(cluster, { namespace, node: running.name, name: "unheard-of" });
    // The open watch still delivers data. A dead connection does not.
    await podsUntil(cluster, namespace, (pods) => pods.length === 2);
    for (let seconds = 0; seconds < 600; seconds += 10) await clock.advance(10_000);
    assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
    link.proxy.fault = () => undefined;
    link.proxy.goDown(); // requests during the silence are never answered
    link.proxy.comeUp();
    const all = podsUntil(cluster, namespace, (pods) => pods.every(isRunning));
    // Time goes on while real answers come.
    const tick = async (): Promise<boolean> => {
      await clock.advance(1000);
      return Promise.race([
        all.then(() => true),
        new Promise<boolean>((resolve) => setTimeout(resolve, 5, false)),
      ]);
    };
    while (!(await tick()));
    const [node] = await until<Node>({
      client: cluster.admin,
      path: paths.nodes(),
      fieldSelector: `metadata.name=${running.name}`,
      check: ([each]) => each !== undefined,
    });
    assert.equal(node?.status?.conditions?.find(({ type }) => type === "Ready")?.status, "True");
    assert.equal(memory.count("remove") + memory.count("removeUnknown"), 0);
  });

  it("keeps its lease rising when the clock is set back an hour (N2)", async () => {
    let offset = 0;
    const clock = { ...systemClock, now: () => Date.now() + offset };
    const { provider } = variants[0]?.make() ?? assert.fail();
    await using running = await nodeWith(cluster, provider, { clock, intervals: { leaseMs: 200 } });
    const seen: string[] = [];
    const collect = (count: number): Promise<Lease[]> =>
      until<Lease>({
        client: cluster.admin,
        path: paths.leases("kube-node-lease"),
        fieldSelector: `metadata.name=${running.name}`,
        check: ([lease]) => {
          const time = String(lease?.spec?.renewTime);
          if (lease && seen.at(-1) !== time) seen.push(time);
          return seen.length >= count;
        },
      });
    await collect(3);
    offset = -3_600_000;
    await collect(8);
    assert.deepEqual(seen, [...seen].sort());
  });

  it("uses a new token when the old one has expired", async () => {
    const proxy = await FaultProxy.open(cluster.plane.kipKubeconfigPath);
    await using _proxy = proxy;
    let valid = "first";
    let token = "first";
    proxy.fault = ({ authorization }) =>
      authorization === `Bearer ${valid}` ? undefined : { status: 401 };
    const config = proxy.config(
      () => token,
      () => (token = valid),
    );
    const client = createApiClient(config, { userAgent: "test/1", logger, clock: systemClock });
    const { provider } = variants[0]?.make() ?? assert.fail();
    await using running = await nodeWith(cluster, provider, {
      client,
      intervals: { podBackoffMs: 20, leaseMs: 250 },
    });
    const namespace = await cluster.plane.createNamespace();
    valid = "second";
    proxy.cutWatches();
    await createPod(cluster, { namespace, node: running.name });
    await podsUntil(cluster, namespace, ([pod]) => isRunning(pod));
    client.close();
  });
});
