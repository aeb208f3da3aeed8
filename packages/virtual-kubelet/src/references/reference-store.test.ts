import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError } from "@kip/k8s-client";
import { assertScales, ManualClock } from "@kip/testing";
import { ReferenceStore } from "./reference-store.ts";

describe("ReferenceStore", () => {
  it("starts no watch after it was stopped, even for a pod that is being resolved", async () => {
    let watches = 0;
    const held = Promise.withResolvers<void>();
    const client = {
      get: async () => {
        await held.promise;
        return { metadata: { resourceVersion: "1" }, data: { key: "value" } };
      },
      list: async () => {
        watches++;
        return { metadata: { resourceVersion: "1" }, items: [] };
      },
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // what a store asks for
    const clock = new ManualClock();
    const store = new ReferenceStore({ client, clock, logger: silentLogger, onChange: () => {} });
    const reader = store.readerFor("ns", "u");
    const first = reader.read({ kind: "ConfigMap", name: "a" });
    await clock.advance(0);
    assert.equal(watches, 1);
    store.stop();
    held.resolve();
    await first;
    const second = await reader.read({ kind: "Secret", name: "b" });
    assert.ok(second, "the reader itself goes on");
    await clock.advance(0);
    assert.equal(watches, 1);
  });

  it("costs time per pod that does not depend on the number of pods", async () => {
    const client = {
      get: async () => ({ metadata: { resourceVersion: "1" }, data: {} }),
      list: async () => ({ metadata: { resourceVersion: "1" }, items: [] }),
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // what a store asks for
    for (const namespaces of [1, 100])
      await assertScales((pods) => {
        const clock = new ManualClock();
        const options = { client, clock, logger: silentLogger, onChange: () => {} };
        const store = new ReferenceStore(options);
        return async () => {
          const readers = Array.from({ length: pods }, (_, index) => {
            const uid = `u${index}`;
            return { uid, reader: store.readerFor(`ns${index % namespaces}`, uid) };
          });
          for (const { uid, reader } of readers)
            for (const kind of ["ConfigMap", "Secret"] as const)
              await reader.read({ kind, name: uid });
          for (const { uid, reader } of readers) store.release(uid, reader.used);
          for (const { uid } of readers) store.release(uid);
          store.stop();
        };
      }, 2000);
  });

  it("asks for a missing object once, however often one pod names it", async () => {
    let reads = 0;
    const client = {
      get: async () => {
        reads++;
        throw new K8sError("K8S_NOT_FOUND", "none");
      },
      list: async () => ({ metadata: { resourceVersion: "1" }, items: [] }),
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // what a store asks for
    const clock = new ManualClock();
    const store = new ReferenceStore({ client, clock, logger: silentLogger, onChange: () => {} });
    const reader = store.readerFor("ns", "u");
    for (let time = 0; time < 100; time++)
      assert.equal(await reader.read({ kind: "ConfigMap", name: "optional" }), undefined);
    assert.equal(reads, 1);
    await store.readerFor("ns", "u").read({ kind: "ConfigMap", name: "optional" });
    assert.equal(reads, 2, "the pod's next attempt asks again");
    store.stop();
  });

  it("forgets objects that a pod no longer uses, and ends the watch of an unused namespace", async () => {
    let reads = 0;
    const signals: AbortSignal[] = [];
    const client = {
      get: async () => {
        reads++;
        return { metadata: { resourceVersion: "1" }, data: {} };
      },
      list: async (_path: string, { signal }: { readonly signal: AbortSignal }) => {
        signals.push(signal);
        return { metadata: { resourceVersion: "1" }, items: [] };
      },
      stream: async () => new PassThrough(),
    } as unknown as ApiClient; // what a store asks for
    const clock = new ManualClock();
    const store = new ReferenceStore({ client, clock, logger: silentLogger, onChange: () => {} });
    const first = store.readerFor("ns", "u");
    await first.read({ kind: "ConfigMap", name: "a" });
    await first.read({ kind: "Secret", name: "b" });
    await clock.advance(0);
    const second = store.readerFor("ns", "u");
    await second.read({ kind: "ConfigMap", name: "a" });
    const other = store.readerFor("ns", "v");
    await other.read({ kind: "ConfigMap", name: "a" });
    store.release("u", second.used);
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, true],
    );
    store.release("u");
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, true],
    );
    store.release("v");
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, true],
    );
    assert.ok(reads >= 2);
    store.stop();
  });
});
