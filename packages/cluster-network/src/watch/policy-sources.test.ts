import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PolicySources } from "./policy-sources.ts";

function bench() {
  const log: string[] = [];
  const begun: { readonly signal: AbortSignal; readonly resolve: () => void }[] = [];
  const sources = new PolicySources({
    begin: async (signal) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      begun.push({ signal, resolve });
      await promise;
    },
    forget: () => log.push("forget"),
  });
  return { log, begun, sources };
}

describe("PolicySources", () => {
  it("watches nothing while there is no policy", async () => {
    const { begun, sources } = bench();
    await sources.synced;
    assert.equal(begun.length, 0);
  });

  it("holds policies back until what they depend on is known", async () => {
    const { log, begun, sources } = bench();
    sources.change("added", () => log.push("a"));
    sources.change("added", () => log.push("b"));
    assert.equal(log.length, 0);
    begun[0]?.resolve();
    await sources.synced;
    sources.change("updated", () => log.push("b again"));
    assert.deepEqual(log, ["a", "b", "b again"]);
    assert.equal(begun.length, 1);
  });

  it("ends the watch with the last policy, and begins again with the next one", async () => {
    const { log, begun, sources } = bench();
    sources.change("added", () => log.push("a"));
    begun[0]?.resolve();
    await sources.synced;
    sources.change("deleted", () => log.push("a is gone"));
    assert.deepEqual(log, ["a", "a is gone", "forget"]);
    assert.equal(begun[0]?.signal.aborted, true);
    sources.change("added", () => log.push("b"));
    assert.equal(begun.length, 2);
  });

  it("hands on nothing of policies that were gone before their pods were known", async () => {
    const { log, begun, sources } = bench();
    sources.change("added", () => log.push("a"));
    const known = sources.synced;
    sources.change("deleted", () => log.push("a is gone"));
    begun[0]?.resolve();
    await known;
    assert.deepEqual(log, ["forget"]);
  });
});
