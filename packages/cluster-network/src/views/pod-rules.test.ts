import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PolicyIndex } from "../policies/policy-index.ts";
import { SharedRules } from "./pod-rules.ts";

/** Pods of one namespace, and a policy that lets in pods with some labels. */
function start() {
  const index = new PolicyIndex();
  const rules = new SharedRules(index, { tooLarge: () => {}, tooMany: () => {} });
  const metadata = { namespace: "shop", name: "n", uid: "n", resourceVersion: "1" };
  const take = (apps: readonly string[]) => {
    const from = apps.map((app) => ({ podSelector: { matchLabels: { app } } }));
    index.setPolicy({ metadata, spec: { podSelector: {}, ingress: [{ from }] } });
    const choice = index.choiceOf("p");
    assert.ok(choice);
    return rules.take(choice);
  };
  index.groups.setPod("p", { namespace: "shop", name: "p", labels: {}, addresses: [], ports: [] });
  return { index, rules, take };
}

describe("SharedRules", () => {
  it("gives a draft until groups are filled, and then rules", () => {
    const { index, rules, take } = start();
    const first = take(["a"]);
    assert.ok("draft" in first);
    assert.equal(rules.isFilled(first.draft), false);
    index.groups.settle();
    assert.equal(rules.isFilled(first.draft), true);
    const second = take(["a"]);
    assert.ok("rules" in second);
    rules.releaseDraft(first.draft);
    assert.equal(index.groups.size, 1);
    rules.release(second.rules);
    assert.equal(index.groups.size, 0);
  });

  it("keeps no lines of a group that only a draft names", () => {
    const { index, rules, take } = start();
    const first = take(["a"]);
    index.groups.settle();
    const second = take(["a"]);
    assert.ok("draft" in first && "rules" in second);
    rules.releaseDraft(first.draft);
    const [name = ""] = second.rules.whole.groups;
    assert.ok(rules.group(name));
    const third = take(["a", "b"]);
    assert.ok("draft" in third);
    rules.release(second.rules);
    assert.equal(rules.group(name), undefined);
    rules.releaseDraft(third.draft);
    assert.equal(index.groups.size, 0);
  });
});
