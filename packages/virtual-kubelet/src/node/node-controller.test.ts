import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { NodeController } from "./node-controller.ts";
import { nodeIntervals } from "./node-intervals.ts";

/** A fake API server for one Node, whose watch delivers no events. */
class NodeServer {
  #node: Node | undefined;
  /** Thrown by the next creations. */
  readonly failures: Error[] = [];

  get name(): string | undefined {
    return this.#node?.metadata?.name;
  }

  forget(): void {
    this.#node = undefined;
  }

  client(): ApiClient {
    const found = (): Node => {
      if (!this.#node) throw new K8sError("K8S_NOT_FOUND", "none");
      return structuredClone(this.#node);
    };
    return {
      get: async () => found(),
      create: async (_path: string, body: Node) => {
        const failure = this.failures.shift();
        if (failure) throw failure;
        this.#node = body;
        return found();
      },
      patch: async (_path: string, body: Node) => {
        this.#node = { ...found(), ...body };
        return found();
      },
      list: async () => ({ metadata: { resourceVersion: "1" }, items: [] }),
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // what a node without features and Lease asks for
  }
}

describe("NodeController", () => {
  it("registers a deleted node again, even if the API server fails the first attempt", async () => {
    const server = new NodeServer();
    const clock = new ManualClock();
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
    server.forget();
    server.failures.push(new K8sError("K8S_UNAVAILABLE", "for now", { retryable: true }));
    await clock.advance(nodeIntervals().pingMs);
    assert.equal(server.name, undefined);
    await clock.advance(nodeIntervals().pingMs);
    assert.equal(server.name, "n");
    stop.abort();
    await running;
  });
});
