import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError } from "@kip/k8s-client";
import { ManualClock } from "@kip/testing";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { NodeServer } from "../testing/node-server.ts";
import { NodeController } from "./node-controller.ts";
import { nodeIntervals } from "./node-intervals.ts";

describe("NodeController", () => {
  it("registers a deleted node again, even if the API server fails the first attempt", async () => {
    const clock = new ManualClock();
    const server = new NodeServer(clock);
    const provider = new MemoryProvider();
    const stop = new AbortController();
    const node = new NodeController({
      client: server.client(),
      identity: {
        nodeName: "n",
        os: "linux",
        arch: "amd64",
        kubeletVersion: "v1",
        kubeletPort: undefined,
        features: [],
      },
      provider,
      taints: [],
      intervals: nodeIntervals(),
      recorder: { record: () => {}, flush: async () => {} },
      facts: await provider.nodeFacts(),
      hasLease: false,
      clock,
      logger: silentLogger,
      signal: stop.signal,
    });
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
});
