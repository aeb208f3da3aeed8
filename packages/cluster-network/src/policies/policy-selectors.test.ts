import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { selectorsOf } from "./policy-selectors.ts";

describe("selectorsOf()", () => {
  it("reads no blocks: a policy has up to 16,384, and all of a pod's policies are charged at once", () => {
    let reads = 0;
    const ipBlock = {
      get cidr() {
        reads++;
        return "10.0.0.0/8";
      },
    };
    const podSelector = { matchLabels: { app: "web" } };
    const policy: NetworkPolicy = {
      metadata: { name: "many", namespace: "a", uid: "1", resourceVersion: "1" },
      spec: {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ from: [{ ipBlock }, { podSelector }] }],
        egress: [{ to: [{ ipBlock }] }],
      },
    };
    assert.deepEqual(selectorsOf(policy), [{ namespace: "a", podSelector }]);
    assert.equal(reads, 0);
  });
});
