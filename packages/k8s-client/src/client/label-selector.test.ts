import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { matchesLabels, type Labels } from "./label-selector.ts";

interface Term {
  readonly key: string;
  readonly operator: string;
  readonly values: readonly string[];
}

function isMet({ key, operator, values }: Term, labels: Labels): boolean {
  const value = labels[key];
  if (operator === "Exists") return value !== undefined;
  if (operator === "DoesNotExist") return value === undefined;
  return (value !== undefined && values.includes(value)) === (operator === "In");
}

describe("matchesLabels()", () => {
  it("does not take names that every object of JavaScript has for labels", () => {
    for (const key of ["constructor", "toString", "valueOf"]) {
      const is = (operator: string, labels = {}): boolean =>
        matchesLabels({ matchExpressions: [{ key, operator }] }, labels);
      assert.equal(is("Exists"), false, key);
      assert.equal(is("DoesNotExist"), true, key);
      assert.equal(is("Exists", { [key]: "" }), true, key);
    }
  });

  it("asks for all terms, as one after the other would", () => {
    const key = fc.constantFrom("a", "b", "c", "d");
    const value = fc.constantFrom("x", "y", "z");
    const term = fc.record({
      key,
      operator: fc.constantFrom("In", "NotIn", "Exists", "DoesNotExist"),
      values: fc.array(value, { maxLength: 3 }),
    });
    const check = (terms: readonly Term[], some: readonly Term[], labels: Labels): void => {
      const matchLabels = Object.fromEntries(some.map(({ key: k, values: [v = "x"] }) => [k, v]));
      const all = Object.entries(matchLabels).map(([k, v]) => ({
        key: k,
        operator: "In",
        values: [v],
      }));
      const selector = { matchLabels, matchExpressions: terms };
      const wanted = [...terms, ...all].every((each) => isMet(each, labels));
      assert.equal(matchesLabels(selector, labels), wanted);
    };
    const terms = fc.array(term, { maxLength: 12 });
    const few = fc.array(term, { maxLength: 2 });
    fc.assert(fc.property(terms, few, fc.dictionary(key, value), check), { numRuns: 3000 });
  });

  it("looks at labels alone where a selector has very many terms", () => {
    const keys = Array.from({ length: 100_000 }, (_, i) => `k${i}`);
    const looks = { count: 0 };
    const web: Labels = { app: "web" };
    const labels = new Proxy(web, {
      getOwnPropertyDescriptor: (target, name) => {
        looks.count++;
        return Object.getOwnPropertyDescriptor(target, name);
      },
    });
    const is = (operator: string): boolean =>
      matchesLabels({ matchExpressions: keys.map((key) => ({ key, operator })) }, labels);
    assert.deepEqual([is("Exists"), is("DoesNotExist")], [false, true]);
    assert.ok(looks.count < 100, String(looks.count));
  });

  it("lists thousands of labels for no short selector, and once for all long ones", () => {
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`l${i}`, ""]));
    let lists = 0;
    const labels = new Proxy(many, {
      ownKeys: (target) => {
        lists++;
        return Reflect.ownKeys(target);
      },
    });
    const is = (operator: string, key: string, terms: number): boolean => {
      const keys = Array.from({ length: terms }, (_, i) => `${key}${i}`);
      return matchesLabels({ matchExpressions: keys.map((k) => ({ key: k, operator })) }, labels);
    };
    assert.deepEqual([is("Exists", "l", 9), is("DoesNotExist", "n", 9)], [true, true]);
    assert.equal(lists, 0);
    assert.deepEqual([is("Exists", "l", 999), is("Exists", "l", 1001)], [true, false]);
    assert.deepEqual([is("DoesNotExist", "n", 999), is("DoesNotExist", "n", 1001)], [true, true]);
    assert.deepEqual([is("DoesNotExist", "l", 999), is("DoesNotExist", "l", 1001)], [false, false]);
    assert.equal(lists, 1);
  });
});
