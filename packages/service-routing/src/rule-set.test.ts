import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { emptyRuleSet, RuleSetBuilder, TableChange, type RuleSet } from "./rule-set.ts";

function ruleSet(fill: (rules: RuleSetBuilder) => void): RuleSet {
  const rules = new RuleSetBuilder();
  fill(rules);
  return rules;
}

function change(before: RuleSet, after: RuleSet): readonly string[] {
  const table = new TableChange("ip t");
  table.add(before, after);
  return table.text().split("\n").slice(0, -1);
}

describe("TableChange", () => {
  const one = ruleSet((rules) => {
    rules.element("map", "1 . tcp", "goto a");
    rules.element("set", "1");
    rules.chains.set("a", ["accept"]);
    rules.sets.set("clients", { kind: "set", definition: "type ipv4_addr;" });
  });

  it("writes nothing if nothing has changed", () => {
    assert.deepEqual(change(one, one), []);
  });

  it("makes sets and chains before elements that name them", () => {
    assert.deepEqual(change(emptyRuleSet, one), [
      "add set ip t clients { type ipv4_addr; }",
      "add chain ip t a",
      "add rule ip t a accept",
      "add element ip t map { 1 . tcp : goto a }",
      "add element ip t set { 1 }",
    ]);
  });

  it("removes elements before the chains that they name", () => {
    assert.deepEqual(change(one, emptyRuleSet), [
      "delete element ip t map { 1 . tcp }",
      "delete element ip t set { 1 }",
      "flush chain ip t a",
      "delete chain ip t a",
      "delete set ip t clients",
    ]);
  });

  it("removes a set with its elements only in a later transaction", () => {
    const before = ruleSet((rules) => {
      rules.element("denied", "10.0.0.1");
      rules.element("set", "1");
      rules.chains.set("a", ["ip saddr @denied drop"]);
      rules.sets.set("denied", { kind: "set", definition: "type ipv4_addr;" });
    });
    const after = ruleSet((rules) => rules.chains.set("a", ["drop"]));
    const table = new TableChange("ip t");
    table.add(before, after);
    assert.equal(
      table.changes(),
      "delete element ip t set { 1 }\nflush chain ip t a\nadd rule ip t a drop\n",
    );
    assert.equal(table.removals(), "delete set ip t denied\n");
  });

  it("replaces a value by deleting its element first, also between two rule sets", () => {
    const other = ruleSet((rules) => rules.element("map", "1 . tcp", "goto b"));
    const table = new TableChange("ip t");
    table.add(emptyRuleSet, other);
    table.add(
      ruleSet((rules) => rules.element("map", "1 . tcp", "goto a")),
      emptyRuleSet,
    );
    assert.equal(
      table.text(),
      "delete element ip t map { 1 . tcp }\nadd element ip t map { 1 . tcp : goto b }\n",
    );
  });

  it("writes a chain again only if its rules differ", () => {
    const other = ruleSet((rules) => rules.chains.set("a", ["accept", "drop"]));
    const same = ruleSet((rules) => rules.chains.set("a", ["accept"]));
    assert.deepEqual(change(same, other), [
      "flush chain ip t a",
      "add rule ip t a accept",
      "add rule ip t a drop",
    ]);
  });
});
