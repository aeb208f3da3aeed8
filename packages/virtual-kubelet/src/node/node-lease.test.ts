import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { keepKnownNode } from "./node-lease.ts";

function start(nodeUid: string | undefined) {
  const node = { uid: nodeUid, failures: 0 };
  const clock = new ManualClock();
  const written: Lease[] = [];
  const notFound = (): never => {
    throw new K8sError("K8S_NOT_FOUND", "there is none", { httpStatus: 404 });
  };
  const write = async (_path: string, lease: object): Promise<unknown> => {
    written.push(lease); // nothing else is written
    return lease;
  };
  const client = {
    get: async (path: string) => {
      if (!path.includes("/nodes/")) return written.at(-1) ?? notFound();
      if (node.failures-- > 0) throw new K8sError("K8S_UNAVAILABLE", "it is away");
      return node.uid === undefined ? notFound() : { metadata: { name: "kip", uid: node.uid } };
    },
    create: write,
    replace: write,
  };
  const stop = new AbortController();
  const kept = keepKnownNode({
    client: client as unknown as ApiClient, // the methods that are called
    nodeName: "kip",
    clock,
    logger: silentLogger,
    signal: stop.signal,
  });
  const pass = async (ms: number): Promise<void> => {
    for (let turn = 0; turn < 10; turn++) await setImmediate();
    await clock.advance(ms);
    for (let turn = 0; turn < 10; turn++) await setImmediate();
  };
  return { kept, stop, pass, written, node, clock };
}

describe("keepKnownNode()", () => {
  it("renews the Lease of a registered node until the signal aborts", async () => {
    const { kept, stop, pass, written, clock } = start("u");
    for (let time = 0; time < 6; time++) await pass(5000);
    assert.equal(written.length, 4);
    const [lease] = written;
    assert.deepEqual(
      [lease?.spec?.holderIdentity, lease?.metadata?.ownerReferences?.[0]?.uid],
      ["kip", "u"],
    );
    stop.abort();
    await kept;
    await pass(60_000);
    assert.deepEqual([written.length, clock.sleepers], [4, 0]);
  });

  it("reads the node again after a failure", async () => {
    const { kept, stop, pass, written, node } = start("u");
    node.failures = 3;
    for (let time = 0; time < 4; time++) await pass(5000);
    assert.ok(written.length > 0);
    stop.abort();
    await kept;
  });

  it("follows a node that is deleted and made again", async () => {
    const { kept, stop, pass, written, node } = start("old");
    await pass(5000);
    node.uid = undefined;
    for (let time = 0; time < 4; time++) await pass(5000);
    const before = written.length;
    node.uid = "new";
    for (let time = 0; time < 4; time++) await pass(5000);
    const owners = written.map(({ metadata }) => metadata?.ownerReferences?.[0]?.uid);
    assert.deepEqual([before, [...new Set(owners)]], [1, ["old", "new"]]);
    stop.abort();
    await kept;
  });

  it("writes nothing for a node that is not registered", async () => {
    const { kept, stop, pass, written } = start(undefined);
    await pass(60_000);
    stop.abort();
    await kept;
    assert.deepEqual(written, []);
  });
});
