import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { ManualClock } from "../testing/manual-clock.ts";
import { ReferenceStore } from "./reference-store.ts";

describe("ReferenceStore", () => {
  it("watches nothing for a pod that is still being looked up when it was stopped", async () => {
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
});
