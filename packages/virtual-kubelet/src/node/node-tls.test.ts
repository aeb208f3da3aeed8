import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLogger } from "@kip/base";
import type { KubeletTls } from "../kubelet-api/index.ts";
import { ManualClock } from "@kip/testing";
import { VirtualKubeletError } from "../errors.ts";
import { NodeTls } from "./node-tls.ts";

const first: KubeletTls = { certificate: "c1", key: "k1", clientCa: "ca1" };

/** A node's certificates, those that the API accepted, and what was logged. */
function nodeTls() {
  const clock = new ManualClock();
  const stop = new AbortController();
  const taken: KubeletTls[] = [];
  const errors: string[] = [];
  const state = { files: first, taken, errors };
  const tls = new NodeTls({
    api: {
      replaceTls: (next) => {
        if (next.key === "bad") throw new VirtualKubeletError("VK_TLS_INVALID", "Cannot use it");
        taken.push(next);
      },
    },
    tls: first,
    reload: async () => state.files,
    clock,
    logger: createLogger({
      level: "info",
      write: (line) => {
        if (line.includes('"error"')) errors.push(line);
      },
    }),
    signal: stop.signal,
  });
  const running = tls.run();
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
  };
  return Object.assign(state, { tls, minute: () => clock.advance(60_000), end });
}

describe("NodeTls", () => {
  it("uses new certificates when they have changed, and only then", async () => {
    const node = nodeTls();
    await node.minute();
    node.files = { ...first, clientCa: "ca2" };
    await node.minute();
    await node.minute();
    node.files = { certificate: "c2", key: "k2", clientCa: "ca2" };
    await node.minute();
    await node.end();
    assert.deepEqual(node.taken, [{ ...first, clientCa: "ca2" }, node.files]);
  });

  it("keeps the old certificates while the new ones are invalid, and logs that once", async () => {
    const node = nodeTls();
    node.files = { ...first, key: "bad" };
    await node.minute();
    await node.minute();
    await node.minute();
    assert.deepEqual(node.taken, []);
    assert.equal(node.errors.length, 1);
    node.files = { ...first, key: "k2" };
    await node.minute();
    await node.end();
    assert.deepEqual(node.taken, [node.files]);
  });

  it("keeps a certificate that the cluster issued, and uses a new client authority", async () => {
    const node = nodeTls();
    const issued = { certificate: "issued", key: "of it" };
    node.tls.useIssued(issued);
    node.files = { certificate: "c2", key: "k2", clientCa: "ca2" };
    await node.minute();
    await node.end();
    assert.deepEqual(node.taken.at(-1), { ...issued, clientCa: "ca2" });
  });
});
