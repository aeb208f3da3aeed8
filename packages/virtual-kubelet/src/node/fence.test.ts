import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError, createLeaderLease, type ApiClient, type LeaderTerm } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { VirtualKubeletError } from "../errors.ts";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { Fence } from "./fence.ts";
import { startStandbyNode } from "./standby-node.ts";

/** An API server with a single Lease and versions. */
class LeaseServer {
  lease: Lease | undefined;
  isAway = false;
  #version = 0;

  client(): ApiClient {
    const answer = async (next: () => Lease | undefined): Promise<never> => {
      if (this.isAway) throw new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
      const lease = next();
      if (!lease) throw new K8sError("K8S_NOT_FOUND", "none");
      return structuredClone(lease) as never; // the type that the caller requests: a Lease
    };
    const write = (body: unknown): Lease => {
      const { metadata, spec } = body as Lease; // the only kind that is written here
      if (this.lease && metadata?.resourceVersion !== this.lease.metadata?.resourceVersion)
        throw new K8sError("K8S_CONFLICT", "changed");
      const resourceVersion = String(++this.#version);
      this.lease = { metadata: { ...metadata, resourceVersion }, spec: { ...spec } };
      return this.lease;
    };
    const unused = (): never => assert.fail("not for leases");
    return {
      server: "",
      get: () => answer(() => this.lease),
      create: (_path, body) => answer(() => write(body)),
      replace: (_path, body) => answer(() => write(body)),
      list: async () => ({ metadata: { resourceVersion: "1" }, items: [] }),
      stream: async () => new PassThrough(), // a watch in which nothing happens
      patch: unused,
      delete: unused,
      request: unused,
      close: () => {},
    };
  }
}

function candidate(
  server: LeaseServer,
  clock: ManualClock,
  identity: string,
): Promise<LeaderTerm> & { readonly stop: AbortController } {
  const stop = new AbortController();
  const lease = createLeaderLease({
    client: server.client(),
    namespace: "kube-node-lease",
    name: "n.virtual-kubelet",
    identity,
    durationMs: 15_000,
    clock,
    logger: silentLogger,
  });
  return Object.assign(lease.acquire(stop.signal), { stop });
}

const pod = podWith();

describe("Fence", () => {
  it("touches no pod after its process was suspended and another replica may be active", async () => {
    const server = new LeaseServer();
    // Each machine has its own clock. The first one's stops together with its process.
    const [first, second] = [new ManualClock(), new ManualClock()];
    const term = await candidate(server, first, "a");
    const backend = new MemoryProvider();
    assert.equal("finish" in new Fence(backend, term).provider, false);
    let finishes = 0;
    const fence = new Fence(Object.assign(backend, { finish: async () => void finishes++ }), term);
    await fence.provider.finish?.(pod, new AbortController().signal);
    assert.equal(finishes, 1);
    await fence.provider.removeUnknown("u");
    const standby = candidate(server, second, "b");
    await second.advance(14_000);
    const pending = await Promise.race([standby, Promise.resolve("waits")]);
    assert.equal(pending, "waits");
    await second.advance(1_100);
    const next = await standby;
    assert.equal(next.number, term.number + 1);
    // The first one wakes up. 15 s have passed on its clock, and none of its timers has run yet.
    first.suspend(15_100);
    await assert.rejects(fence.provider.remove(pod, 0, new AbortController().signal), (error) =>
      VirtualKubeletError.is(error, "VK_FENCED"),
    );
    await assert.rejects(
      async () => fence.provider.finish?.(pod, new AbortController().signal),
      (error) => VirtualKubeletError.is(error, "VK_FENCED"),
    );
    assert.equal(finishes, 1);
    await first.advance(0);
    assert.ok(term.ended.aborted);
    assert.equal(backend.calls.length, 1);
    await next.release(true);
    assert.equal(server.lease?.spec?.holderIdentity, "");
  });

  it("ends its term before another replica may become active while the API server is away, and keeps it if the server returns in time", async () => {
    const server = new LeaseServer();
    const clock = new ManualClock();
    const term = await candidate(server, clock, "a");
    await clock.advance(60_000);
    assert.ok(term.isHeld());
    server.isAway = true;
    await clock.advance(8_000);
    assert.ok(term.isHeld());
    server.isAway = false;
    await clock.advance(20_000);
    assert.ok(term.isHeld());
    server.isAway = true;
    await clock.advance(10_100);
    assert.equal(term.isHeld(), false);
    assert.match(String(term.ended.reason), /could not be renewed in time/);
  });

  it("touches no pod after its machine was suspended, which the monotonic clock does not count", async () => {
    const server = new LeaseServer();
    const [first, second] = [new ManualClock(), new ManualClock()];
    const term = await candidate(server, first, "a");
    const backend = new MemoryProvider();
    const fence = new Fence(backend, term);
    const standby = candidate(server, second, "b");
    await second.advance(15_100);
    const next = await standby;
    // The first machine wakes up. Its time of day is corrected. Its other clock and its timers continue from where they were.
    first.step(15_100);
    assert.equal(term.isHeld(), false);
    await assert.rejects(fence.provider.remove(pod, 0, new AbortController().signal), (error) =>
      VirtualKubeletError.is(error, "VK_FENCED"),
    );
    assert.equal(backend.calls.length, 0);
    await first.advance(3_000);
    assert.ok(term.ended.aborted, "when the next renewal is due");
    await next.release(true);
  });

  it("keeps its term as long as without it when the time of day is set back", async () => {
    const server = new LeaseServer();
    const clock = new ManualClock();
    const term = await candidate(server, clock, "a");
    clock.step(-3_600_000);
    await clock.advance(60_000);
    assert.ok(term.isHeld());
    server.isAway = true;
    clock.step(-3_600_000);
    await clock.advance(10_100);
    assert.equal(term.isHeld(), false);
  });

  it("ends its term when another process holds the lease", async () => {
    const server = new LeaseServer();
    const clock = new ManualClock();
    const term = await candidate(server, clock, "a");
    server.lease = {
      metadata: { ...server.lease?.metadata, resourceVersion: "99" },
      spec: { ...server.lease?.spec, holderIdentity: "b" },
    };
    await clock.advance(4_000);
    assert.equal(term.isHeld(), false);
  });
});

describe("startStandbyNode()", () => {
  it("releases the lease when its provider cannot be created, and retries", async () => {
    const server = new LeaseServer();
    const clock = new ManualClock();
    let made = 0;
    await using replica = startStandbyNode({
      client: server.client(),
      nodeName: "n",
      provider: async () => {
        made++;
        throw new Error("its backend is away");
      },
      standby: { identity: "a" },
      clock,
      logger: silentLogger,
    });
    await clock.advance(0);
    assert.equal(made, 1);
    assert.equal(server.lease?.spec?.holderIdentity, "");
    await clock.advance(1000);
    assert.ok(made > 1);
    assert.equal(replica.node, undefined);
  });

  it("retries no earlier than its provider's backend asks", async () => {
    const clock = new ManualClock();
    let made = 0;
    await using _ = startStandbyNode({
      client: new LeaseServer().client(),
      nodeName: "n",
      provider: async () => {
        made++;
        throw new K8sError("K8S_TOO_MANY_REQUESTS", "later", { retryAfterMs: 90_000 });
      },
      standby: { identity: "a" },
      clock,
      logger: silentLogger,
    });
    await clock.advance(89_000);
    assert.equal(made, 1);
    await clock.advance(5000);
    assert.ok(made > 1);
  });
});
