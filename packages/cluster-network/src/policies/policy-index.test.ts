import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PolicyIndex } from "./policy-index.ts";
import { readTierPolicy } from "./tier-policy.ts";

describe("PolicyIndex", () => {
  it("removes the name server once its slice has another manager", () => {
    const index = new PolicyIndex();
    const set = (manager: string): boolean =>
      index.setSlice({
        metadata: {
          namespace: "kube-system",
          name: "kube-dns",
          uid: "s",
          resourceVersion: "1",
          labels: { "endpointslice.kubernetes.io/managed-by": manager },
        },
        addressType: "IPv4",
        endpoints: [{ addresses: ["10.0.0.10"] }],
      });
    const group = index.groups.name({ namespace: "kube-system", podSelector: {} });
    index.groups.use(group, 1);
    set("kip.elotl.co");
    index.groups.settle();
    assert.deepEqual(index.groups.addresses(group), ["10.0.0.10"]);
    set("another");
    index.groups.settle();
    assert.deepEqual(index.groups.addresses(group), []);
  });

  it("reports the pods that a changed policy selects, and those that it selected before", () => {
    const index = new PolicyIndex();
    const set = (app: string) => {
      const metadata = { namespace: "a", name: "n", uid: "n", resourceVersion: "1" };
      const podSelector = { matchLabels: { app } };
      const change = index.setPolicy({ metadata, spec: { podSelector } });
      return change?.subjects.map((subject) => subject.podSelector.matchLabels?.["app"]);
    };
    assert.deepEqual(set("web"), ["web"]);
    assert.deepEqual(set("db"), ["web", "db"]);
  });

  it("keeps no data of a deleted namespace", async () => {
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
