import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import type { Node, Pod, PodStatus } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { startNode } from "./start-node.ts";
import type { RunningNode } from "./node-options.ts";

const hour = 3_600_000;

/** A fake API server for one node and its pods, whose watches deliver no events. */
class Server {
  readonly pods: readonly Pod[];
  readonly clock: ManualClock;
  node: Node | undefined;
  tokens = 0;
  /** Statuses of pods that were written, by path. */
  readonly written = new Map<string, PodStatus>();
  /** Thrown by writes of pods' statuses. */
  failure: Error | undefined;

  constructor(clock: ManualClock, pods: readonly Pod[] = []) {
    this.clock = clock;
    this.pods = pods;
  }

  client(): ApiClient {
    const node = (change: object = {}): Node => {
      if (!this.node) throw new K8sError("K8S_NOT_FOUND", "none");
      this.node = { ...this.node, ...change };
      return structuredClone(this.node);
    };
    return {
      get: async (path: string) => (path.includes("/nodes/") ? node() : {}),
      create: async (path: string, body: Node) => {
        if (path.endsWith("/token")) {
          this.tokens++;
          const expirationTimestamp = new Date(this.clock.now() + hour).toISOString();
          return { status: { token: `t${this.tokens}`, expirationTimestamp } };
        }
        if (path.endsWith("/nodes")) this.node = body;
        return structuredClone(body);
      },
      replace: async (_path: string, body: object) => structuredClone(body),
      patch: async (path: string, body: Pod) => {
        if (path.includes("/nodes/")) return node(body);
        if (this.failure) throw this.failure;
        this.written.set(path, { ...body.status });
        return structuredClone(this.pods[0]);
      },
      list: async (path: string) => ({
        metadata: { resourceVersion: "1" },
        items: path.endsWith("/pods") ? structuredClone(this.pods) : [],
      }),
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // the calls that a node makes here
  }

  start(provider: MemoryProvider): Promise<RunningNode> {
    const { clock } = this;
    return startNode({
      client: this.client(),
      nodeName: "n",
      provider,
      clock,
      logger: silentLogger,
    });
  }
}

function pod(uid: string, volumes: NonNullable<NonNullable<Pod["spec"]>["volumes"]> = []): Pod {
  return {
    metadata: { uid, name: uid, namespace: "ns", resourceVersion: "1" },
    spec: { nodeName: "n", containers: [{ name: "main" }], volumes },
  };
}

/** A volume that ends. */
const token = { name: "t", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } };

describe("startNode()", () => {
  it("repairs the other pods when the provider fails for one", async () => {
    const server = new Server(new ManualClock(), [pod("a"), pod("b"), pod("c")]);
    const provider = new MemoryProvider();
    provider.presence = async (uid) => {
      if (uid === "a") throw new Error("no");
      if (uid === "b") await new Promise(() => {});
      return "absent";
    };
    await using _ = await server.start(provider);
    await server.clock.advance(0);
    assert.equal(provider.count("apply"), 3);
    provider.pods.clear();
    await server.clock.advance(60_000);
    assert.equal(provider.count("apply"), 4);
    assert.ok(provider.pods.has("c"));
    provider.pods.clear();
    await server.clock.advance(120_000);
    assert.ok(provider.pods.has("c"), "also when the first answer never came");
  });

  it("renews tokens while a provider's list hangs", async () => {
    const server = new Server(new ManualClock(), [pod("a", [token])]);
    const provider = new MemoryProvider();
    await using _ = await server.start(provider);
    await server.clock.advance(0);
    assert.equal(provider.count("apply"), 1);
    const list = provider.list.bind(provider);
    provider.list = () => new Promise(() => {});
    await server.clock.advance(hour);
    assert.equal(server.tokens, 2);
    assert.equal(provider.count("apply"), 2);
    provider.pods.clear();
    provider.list = list;
    await server.clock.advance(120_000);
    assert.ok(provider.pods.has("a"), "a provider that answers again is asked again");
  });

  it("registers the node and renews tokens while the removal of an unknown pod hangs", async () => {
    const server = new Server(new ManualClock(), [pod("a", [token])]);
    const provider = new MemoryProvider();
    const known = new Set(["stray"]);
    provider.list = async () => [...known].map((uid) => ({ uid, namespace: "ns", name: uid }));
    let removals = 0;
    provider.removeUnknown = () => {
      removals++;
      return new Promise(() => {});
    };
    const starting = server.start(provider);
    await server.clock.advance(30_000);
    await using _ = await starting;
    await server.clock.advance(hour);
    assert.equal(server.tokens, 2);
    assert.equal(removals, 1, "a removal that is under way is not repeated");
  });

  it("keeps the newest facts of a node whose provider answers in another order", async () => {
    const server = new Server(new ManualClock());
    const provider = new MemoryProvider();
    await using _ = await server.start(provider);
    const first = Promise.withResolvers<typeof provider.facts>();
    const facts = (cpu: string): typeof provider.facts => ({
      ...provider.facts,
      capacity: { cpu },
    });
    const answers = [first.promise, Promise.resolve(facts("2"))];
    provider.nodeFacts = () => answers.shift() ?? Promise.resolve(facts("3"));
    provider.nodeChanged();
    provider.nodeChanged();
    await server.clock.advance(0);
    first.resolve(facts("1"));
    await server.clock.advance(0);
    assert.equal(server.node?.status?.capacity?.["cpu"], "2");
  });

  it("writes node facts that changed during the start", async () => {
    const server = new Server(new ManualClock());
    const provider = new MemoryProvider();
    const list = provider.list.bind(provider);
    provider.list = async () => {
      provider.facts = { ...provider.facts, capacity: { cpu: "7" } };
      provider.nodeChanged();
      return list();
    };
    await using _ = await server.start(provider);
    await server.clock.advance(0);
    assert.equal(server.node?.status?.capacity?.["cpu"], "7");
  });

  it("ends although its provider does not stop", async () => {
    const server = new Server(new ManualClock());
    const provider = Object.assign(new MemoryProvider(), {
      stop: () => new Promise<void>(() => {}),
    });
    const node = await server.start(provider);
    const ended = node[Symbol.asyncDispose]();
    await server.clock.advance(60_000);
    await ended;
  });

  it("writes terminal statuses of pods before it ends, without waiting for the end of a pause", async () => {
    const server = new Server(new ManualClock(), [pod("a"), pod("b")]);
    const provider = new MemoryProvider();
    const node = await server.start(provider);
    await server.clock.advance(0);
    server.failure = new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
    provider.report("a", "Succeeded");
    provider.report("b", "Running", { annotations: { a: "1" } });
    await server.clock.advance(40_000); // the pauses have grown to their longest
    server.failure = undefined;
    server.written.clear();
    await node[Symbol.asyncDispose]();
    assert.equal(server.written.get("/api/v1/namespaces/ns/pods/a/status")?.phase, "Succeeded");
  });

  it("ends although terminal statuses cannot be written because the API server is away", async () => {
    const server = new Server(new ManualClock(), [pod("a")]);
    const provider = new MemoryProvider();
    const node = await server.start(provider);
    await server.clock.advance(0);
    server.failure = new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
    provider.report("a", "Succeeded");
    const ended = node[Symbol.asyncDispose]();
    await server.clock.advance(60_000);
    await ended;
    assert.equal(server.clock.sleepers, 0);
  });

  it("writes statuses that the provider reports during the start, of pods that are not listed yet", async () => {
    const server = new Server(new ManualClock(), [pod("a")]);
    const provider = new MemoryProvider();
    provider.start = async (callbacks) => {
      callbacks.nodeChanged();
      callbacks.podEvent({ uid: "a", type: "Normal", reason: "Found", message: "It is there" });
      callbacks.podStatus({ uid: "a", status: { phase: "Failed" } });
      callbacks.podStatus({ uid: "gone", status: { phase: "Failed" } });
    };
    await using _ = await server.start(provider);
    await server.clock.advance(0);
    const phases = [...server.written].map(([path, { phase }]) => [path, phase]);
    assert.deepEqual(phases, [["/api/v1/namespaces/ns/pods/a/status", "Failed"]]);
  });
});
