import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { keepKnownNode } from "./node-lease.ts";

function start(nodeUid: string | undefined) {
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
    get: async (path: string) =>
      path.includes("/nodes/") && nodeUid !== undefined
        ? { metadata: { name: "kip", uid: nodeUid } }
        : (written.at(-1) ?? notFound()),
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
  return { kept, stop, pass, written, clock };
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

  it("writes nothing for a node that is not registered", async () => {
    const { kept, pass, written } = start(undefined);
    await pass(60_000);
    await kept;
    assert.deepEqual(written, []);
  });
});
