import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodFacts } from "./pod-facts.ts";
import { noNumbers } from "./port-numbers.ts";
import { podPolicy } from "./pod-policy.ts";

const pod: PodFacts = { namespace: "shop", name: "a", labels: {}, addresses: [], ports: [] };
const groups = { name: () => "group", portNumbers: () => noNumbers };

/** The blocks that a policy lets in with one exception. */
function blocksWithout(cidr: string, except: string) {
  const metadata = { namespace: "shop", name: "n", uid: "n", resourceVersion: "1" };
  const from = [{ ipBlock: { cidr, except: [except] } }];
  const policy = { metadata, spec: { podSelector: {}, ingress: [{ from }] } };
  const choice = { policies: [policy], tiers: [], isUncompared: false, isRefused: () => false };
  return podPolicy(pod, choice, groups).view.ingress?.[0]?.blocks;
}

describe("podPolicy()", () => {
  it("reads zeros before the numbers of a block, and IPv4 in IPv6, as the API server does", () => {
    const expected = [{ cidr: "10.0.0.0/8", except: ["10.8.0.0/16"] }];
    assert.deepEqual(blocksWithout("010.00.0.0/8", "010.008.000.0/016"), expected);
    assert.deepEqual(blocksWithout("10.0.0.0/8", "::ffff:10.8.0.0/112"), expected);
  });

  it("leaves out a block with an exception that it cannot read, or that is of another IP version", () => {
    for (const except of ["10.0.0.0/33", "ten", "::ffff:10.8.0.0/90", "fd00::/8"])
      assert.equal(blocksWithout("0.0.0.0/0", except), undefined, except);
  });
});
