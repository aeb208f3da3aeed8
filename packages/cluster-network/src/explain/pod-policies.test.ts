import assert from "node:assert/strict";
import { it } from "node:test";
import { podFacts } from "../policies/pod-facts.ts";
import { PolicyIndex, type PolicyChoice } from "../policies/policy-index.ts";
import { pod, policy } from "../testing/explain-cluster.ts";
import { PodPolicies } from "./pod-policies.ts";

it("PodPolicies compares policies with one of many pods that are alike, once for all that are asked for", () => {
  let comparisons = 0;
  class Counting extends PolicyIndex {
    override choiceOf(podUid: string): PolicyChoice | undefined {
      comparisons++;
      return super.choiceOf(podUid);
    }
  }
  const index = new Counting();
  const metadata = { labels: { app: "web" } };
  const pods = Array.from({ length: 100 }, (_, i) => pod(`p${i}`, `10.0.0.${i}`, { metadata }));
  for (const each of pods) index.groups.setPod(each.metadata.uid, podFacts(each));
  const from = [{ podSelector: { matchLabels: { app: "web" } } }];
  index.setPolicy(policy("n", { podSelector: {}, ingress: [{ from }] }));
  const policies = new PodPolicies(index, pods);
  const asked = pods.slice(0, 10);
  for (const each of [...asked, ...asked]) {
    const known = policies.of(each);
    assert.ok(known !== undefined && known !== "unreadable");
    const [group = ""] = known.view.ingress?.[0]?.groups ?? [];
    assert.equal(policies.addresses(group).size, 100);
  }
  assert.equal(comparisons, 1 + asked.length);
});
