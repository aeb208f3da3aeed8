import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { ChangeQueue, type ChangeShare } from "./change-queue.ts";
import { namespaceOf } from "../budget/namespace-budget.ts";

/** Looks at all that waits each time. */
class SimpleQueue {
  readonly #keys = new Map<string, boolean>();

  add(key: string, isFree: boolean): void {
    if (this.#keys.get(key) !== isFree) this.#keys.delete(key);
    this.#keys.set(key, isFree);
  }

  delete(key: string): void {
    this.#keys.delete(key);
  }

  take(share: ChangeShare, weightOf: (key: string) => number): readonly string[] {
    const free: string[] = [];
    const waiting: { readonly key: string; readonly weight: number; readonly end: number }[] = [];
    const sums = new Map<string, number>();
    for (const [key, isFree] of this.#keys) {
      const before = sums.get(namespaceOf(key)) ?? 0;
      const weight = weightOf(key);
      if (isFree) free.push(key);
      if (isFree || before >= share.perNamespace) continue;
      sums.set(namespaceOf(key), before + weight);
      waiting.push({ key, weight, end: before + weight });
    }
    const [oldest, ...others] = waiting;
    others.sort((a, b) => a.end - b.end);
    let room = share.total - (oldest?.weight ?? 0);
    const fitting = others.filter(({ weight }) => (room -= weight) >= 0);
    const keys = [...free, ...(oldest ? [oldest.key] : []), ...fitting.map(({ key }) => key)];
    for (const key of keys) this.#keys.delete(key);
    return keys;
  }
}

const share: ChangeShare = { perNamespace: 100, total: 500 };

describe("ChangeQueue", () => {
  it("takes what one takes that looks at all that waits", () => {
    const key = fc
      .tuple(fc.constantFrom("a", "b", "c", "d"), fc.nat({ max: 7 }))
      .map(([namespace, number]) => `${namespace}/${number}`);
    const step = fc.oneof(
      fc.record({ add: key, weight: fc.integer({ min: 1, max: 12 }), isFree: fc.boolean() }),
      fc.record({ add: key, weight: fc.integer({ min: 1, max: 12 }), isFree: fc.constant(false) }),
      fc.record({ remove: key }),
      fc.record({ perNamespace: fc.integer({ min: 1, max: 20 }), total: fc.nat({ max: 40 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const [queue, simple] = [new ChangeQueue(), new SimpleQueue()];
        const weights = new Map<string, number>();
        for (const each of steps) {
          if ("add" in each) {
            weights.set(each.add, each.weight / 4);
            for (const one of [queue, simple]) one.add(each.add, each.isFree);
          } else if ("remove" in each) for (const one of [queue, simple]) one.delete(each.remove);
          else {
            const [found, expected] = [queue, simple].map((one) =>
              one.take(each, (name) => weights.get(name) ?? 0),
            );
            assert.deepEqual(found, expected);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  for (const [name, namespaces] of [
    ["one namespace", 1],
    ["very many namespaces", 5000],
  ] as const)
    it(`weighs of ${name} what is added and taken, not what waits`, () => {
      const queue = new ChangeQueue();
      for (let i = 0; i < 20_000; i++) queue.add(`n${i % namespaces}/s${i}`);
      let weighed = 0;
      const take = (): number => queue.take(share, () => (weighed++, 1)).length;
      take();
      for (let round = 0; round < 20; round++) {
        weighed = 0;
        const taken = take();
        assert.equal(taken, namespaces === 1 ? 100 : 500);
        assert.ok(weighed <= 2 * taken + 2, `${weighed} for ${taken}`);
      }
      while (queue.size > 0) take();
      assert.equal(take(), 0);
    });
});
