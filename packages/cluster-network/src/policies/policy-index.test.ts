import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PolicyIndex } from "./policy-index.ts";
import { readTierPolicy } from "./tier-policy.ts";

describe("PolicyIndex", () => {
  it("keeps nothing of a namespace that is gone", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const index = new PolicyIndex();
    const spec = { priority: 1, subject: { namespaces: {} } };
    const object = { metadata: { name: "t" }, spec };
    index.setTierPolicy(
      "t",
      readTierPolicy("AdminNetworkPolicy", object, () => {}),
    );
    const visit = (namespace: string): WeakRef<object> => {
      const labels = { name: namespace };
      index.groups.setNamespace(namespace, labels);
      const facts = { namespace, name: "p", labels: {}, addresses: [], ports: [] };
      index.groups.setPod("p", facts);
      assert.equal(index.choiceOf("p")?.tiers.length, 1);
      index.groups.setPod("p", undefined);
      index.groups.setNamespace(namespace, undefined);
      return new WeakRef(labels);
    };
    const first = visit("a");
    visit("b");
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    assert.equal(first.deref(), undefined);
  });
});
