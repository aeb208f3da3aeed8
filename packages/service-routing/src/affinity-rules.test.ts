import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { addAffinity, affinityMarks } from "./affinity-rules.ts";
import { families } from "./family.ts";
import { RuleSetBuilder } from "./rule-set.ts";

describe("addAffinity()", () => {
  it("gives each endpoint a number of its own, which does not depend on the order", () => {
    // Of so many, some would have the same number.
    const endpoints = Array.from({ length: 60_000 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`);
    const numbersOf = (list: readonly string[]): ReadonlyMap<string, string> => {
      const rules = new RuleSetBuilder();
      const [family] = families;
      assert.ok(family);
      const names = { id: "ns/a/tcp-80", chain: "all/ns/a/tcp-80", protocol: "tcp", seconds: 10 };
      addAffinity({ rules, family, ...names, endpoints: list, dataOf: (endpoint) => endpoint });
      return new Map(
        [...rules.elements]
          .filter(([element]) => element.startsWith("endpoints/"))
          .map(([element, endpoint]) => [endpoint, element.split(" ")[1] ?? ""]),
      );
    };
    const numbers = numbersOf(endpoints);
    assert.equal(new Set(numbers.values()).size, endpoints.length);
    assert.deepEqual(numbersOf(endpoints.toReversed()), numbers);
    for (const number of numbers.values())
      assert.ok(Number(number) >= affinityMarks.first && Number(number) <= affinityMarks.last);
  });
});
