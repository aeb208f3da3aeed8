import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import type { NodeFacts, PodProvider } from "../pod-provider.ts";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { NodeServer } from "../testing/node-server.ts";
import { NodeController } from "./node-controller.ts";
import { nodeIntervals } from "./node-intervals.ts";

interface NodeParts {
  readonly provider: PodProvider;
  readonly facts: NodeFacts;
  readonly features?: readonly string[];
  readonly signal?: AbortSignal;
}

function controller(
  server: NodeServer,
  clock: ManualClock,
  { provider, facts, features = [], signal = new AbortController().signal }: NodeParts,
): NodeController {
  return new NodeController({
    client: server.client(),
    identity: {
      nodeName: "n",
      os: "linux",
      arch: "amd64",
      kubeletVersion: "v1",
      kubeletPort: undefined,
      features,
    },
    provider,
    taints: [],
    intervals: nodeIntervals(),
    recorder: { record: () => {}, flush: async () => {} },
    facts,
    hasLease: false,
    clock,
    logger: silentLogger,
    signal,
  });
}

describe("NodeController", () => {
  it("registers a deleted node again, even if the API server fails the first attempt", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = new MemoryProvider();
    const stop = new AbortController();
    const facts = await provider.nodeFacts();
    const node = controller(server, clock, { provider, facts, signal: stop.signal });
    await node.register();
    const running = node.run();
    server.deleteNode();
    server.creationFailures.push(new K8sError("K8S_UNAVAILABLE", "for now", { retryable: true }));
    await clock.advance(nodeIntervals().pingMs);
    assert.equal(server.node?.metadata?.name, undefined);
    await clock.advance(nodeIntervals().pingMs);
    assert.equal(server.node?.metadata?.name, "n");
    stop.abort();
    await running;
  });

  it("declares what its kubelet API and its provider's pods support", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    server.version = { major: "1", minor: "36" };
    const provider = new MemoryProvider();
    const facts = { ...(await provider.nodeFacts()), declaredFeatures: ["B"] };
    const node = controller(server, clock, { provider, facts, features: ["C", "A"] });
    await node.register();
    const { declaredFeatures } = (server.node?.status ?? {}) as { declaredFeatures?: unknown };
    assert.deepEqual(declaredFeatures, ["A", "B", "C"]);
  });
});
