import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import type { Node, Pod } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { NodeServer } from "../testing/node-server.ts";
import type { ProviderCallbacks } from "../pod-provider.ts";
import { startNode } from "./start-node.ts";
import type { RunningNode } from "./node-options.ts";

const hour = 3_600_000;

function start(
  server: NodeServer,
  clock: ManualClock,
  provider: MemoryProvider,
): Promise<RunningNode> {
  const client = server.client();
  return startNode({ client, nodeName: "n", provider, clock, logger: silentLogger });
}

function pod(uid: string, volumes: NonNullable<Pod["spec"]["volumes"]> = []): Pod {
  return podWith({
    metadata: { uid, name: uid, namespace: "ns" },
    spec: { nodeName: "n", containers: [{ name: "main" }], volumes },
  });
}

const podlessNode: Node = { metadata: { name: "n", labels: { rack: "1" } } };

/** A volume whose content expires. */
const token = { name: "t", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } };

describe("startNode()", () => {
  it("repairs the other pods when the provider fails for one", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a"), pod("b"), pod("c")]);
    const provider = new MemoryProvider();
    provider.presence = async (uid) => {
      if (uid === "a") throw new Error("no");
      if (uid === "b") await new Promise(() => {});
      return "absent";
    };
    await using _ = await start(server, clock, provider);
    await clock.advance(0);
    assert.equal(provider.count("apply"), 3);
    provider.pods.clear();
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 4);
    assert.ok(provider.pods.has("c"));
    provider.pods.clear();
    await clock.advance(120_000);
    assert.ok(provider.pods.has("c"), "also when the first answer never came");
  });

  it("renews tokens while a provider's list hangs", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a", [token])]);
    const provider = new MemoryProvider();
    await using _ = await start(server, clock, provider);
    await clock.advance(0);
    assert.equal(provider.count("apply"), 1);
    const list = provider.list.bind(provider);
    provider.list = () => new Promise(() => {});
    await clock.advance(hour);
    assert.equal(server.tokens, 2);
    assert.equal(provider.count("apply"), 2);
    provider.pods.clear();
    provider.list = list;
    await clock.advance(120_000);
    assert.ok(provider.pods.has("a"), "a provider that answers again is asked again");
  });

  it("registers the node and renews tokens while the removal of an unknown pod hangs", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a", [token])]);
    const provider = new MemoryProvider();
    const known = new Set(["stray"]);
    provider.list = async () => [...known].map((uid) => ({ uid, namespace: "ns", name: uid }));
    let removals = 0;
    provider.removeUnknown = () => {
      removals++;
      return new Promise(() => {});
    };
    const starting = start(server, clock, provider);
    await clock.advance(30_000);
    await using _ = await starting;
    await clock.advance(hour);
    assert.equal(server.tokens, 2);
    assert.equal(removals, 1, "a removal that is under way is not repeated");
  });

  it("keeps the newest facts of a node whose provider answers in another order", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = new MemoryProvider();
    await using _ = await start(server, clock, provider);
    const first = Promise.withResolvers<typeof provider.facts>();
    const facts = (cpu: string): typeof provider.facts => ({
      ...provider.facts,
      capacity: { cpu },
    });
    const answers = [first.promise, Promise.resolve(facts("2"))];
    provider.nodeFacts = () => answers.shift() ?? Promise.resolve(facts("3"));
    provider.nodeChanged();
    provider.nodeChanged();
    await clock.advance(0);
    first.resolve(facts("1"));
    await clock.advance(0);
    assert.equal(server.node?.status?.capacity?.["cpu"], "2");
  });

  it("tells the provider the labels of the node, others' too, as they were seen and as they are", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = new MemoryProvider();
    const callbacks = Promise.withResolvers<ProviderCallbacks>();
    const begin = provider.start.bind(provider);
    provider.start = async (given) => {
      assert.equal(given.nodeLabels?.(), undefined);
      assert.equal(await given.readNodeLabels?.(), undefined);
      server.node = podlessNode;
      assert.deepEqual(await given.readNodeLabels?.(), { rack: "1" });
      server.deleteNode();
      callbacks.resolve(given);
      await begin(given);
    };
    await using _ = await start(server, clock, provider);
    const given = await callbacks.promise;
    assert.equal(given.nodeLabels?.()?.["kubernetes.io/hostname"], "n");
    const { node } = server;
    assert.ok(node);
    server.node = { ...node, metadata: { ...node.metadata, labels: { rack: "7" } } };
    assert.equal(given.nodeLabels?.()?.["rack"], undefined, "no watch has told it");
    assert.deepEqual(await given.readNodeLabels?.(), { rack: "7" });
    server.deleteNode();
    assert.equal(await given.readNodeLabels?.(), undefined);
  });

  it("writes node facts that changed during the start", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = new MemoryProvider();
    const list = provider.list.bind(provider);
    provider.list = async () => {
      provider.facts = { ...provider.facts, capacity: { cpu: "7" } };
      provider.nodeChanged();
      return list();
    };
    await using _ = await start(server, clock, provider);
    await clock.advance(0);
    assert.equal(server.node?.status?.capacity?.["cpu"], "7");
  });

  it("ends although its provider does not stop", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = Object.assign(new MemoryProvider(), {
      stop: () => new Promise<void>(() => {}),
    });
    const node = await start(server, clock, provider);
    const ended = node[Symbol.asyncDispose]();
    await clock.advance(60_000);
    await ended;
  });

  it("writes terminal statuses of pods before it ends, without waiting for the end of a pause", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a"), pod("b")]);
    const provider = new MemoryProvider();
    const node = await start(server, clock, provider);
    await clock.advance(0);
    server.failure = new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
    provider.report("a", "Succeeded");
    provider.report("b", "Running", { annotations: { a: "1" } });
    await clock.advance(40_000); // the pauses have grown to their longest
    server.failure = undefined;
    server.written.clear();
    await node[Symbol.asyncDispose]();
    assert.equal(server.written.get("/api/v1/namespaces/ns/pods/a/status")?.phase, "Succeeded");
  });

  it("ends although terminal statuses cannot be written because the API server is away", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a")]);
    const provider = new MemoryProvider();
    const node = await start(server, clock, provider);
    await clock.advance(0);
    server.failure = new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
    provider.report("a", "Succeeded");
    const ended = node[Symbol.asyncDispose]();
    await clock.advance(60_000);
    await ended;
    assert.equal(clock.sleepers, 0);
  });

  it("writes statuses that the provider reports during the start, of pods that are not listed yet", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock, [pod("a")]);
    const provider = new MemoryProvider();
    provider.start = async (callbacks) => {
      callbacks.nodeChanged();
      callbacks.podEvent({ uid: "a", type: "Normal", reason: "Found", message: "It is there" });
      callbacks.podStatus({ uid: "a", status: { phase: "Failed" } });
      callbacks.podStatus({ uid: "gone", status: { phase: "Failed" } });
    };
    await using _ = await start(server, clock, provider);
    await clock.advance(0);
    const phases = [...server.written].map(([path, { phase }]) => [path, phase]);
    assert.deepEqual(phases, [["/api/v1/namespaces/ns/pods/a/status", "Failed"]]);
  });
});
