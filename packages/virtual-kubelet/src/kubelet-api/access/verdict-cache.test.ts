import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { VerdictCache } from "./verdict-cache.ts";

function cacheWith(entries = 10): {
  cache: VerdictCache<string>;
  advance: (ms: number) => Promise<void>;
} {
  const clock = new ManualClock();
  const cache = new VerdictCache<string>(clock, (verdict) => verdict === "yes", {
    good: { keepMs: 100, entries },
    bad: { keepMs: 10, entries },
  });
  return { cache, advance: async (ms) => await clock.advance(ms) };
}

describe("VerdictCache", () => {
  it("keeps good verdicts longer than bad ones", async () => {
    const { cache, advance } = cacheWith();
    let asked = 0;
    const ask = (verdict: string) => async (): Promise<string> => {
      asked++;
      return verdict;
    };
    await cache.get("a", ask("yes"));
    await cache.get("b", ask("no"));
    assert.equal(await cache.get("a", ask("no")), "yes");
    assert.equal(await cache.get("b", ask("yes")), "no");
    assert.equal(asked, 2);
    await advance(10);
    assert.equal(await cache.get("b", ask("yes")), "yes");
    await advance(90);
    assert.equal(await cache.get("a", ask("no")), "no");
    assert.equal(asked, 4);
  });

  it("asks equal questions at the same moment once, and does not remember failures", async () => {
    const { cache } = cacheWith();
    const answer = Promise.withResolvers<string>();
    let asked = 0;
    const ask = async (): Promise<string> => {
      asked++;
      return await answer.promise;
    };
    const both = [cache.get("a", ask), cache.get("a", ask)];
    assert.equal(cache.asking, 1);
    answer.reject(new Error("out of reach"));
    await assert.rejects(Promise.all(both), /out of reach/);
    await Promise.allSettled(both);
    assert.equal(asked, 1);
    assert.equal(await cache.get("a", async () => "yes"), "yes");
  });

  it("drops the oldest above its bound, bad ones never for good ones", async () => {
    const { cache } = cacheWith(2);
    await cache.get("good", async () => "yes");
    for (const key of ["1", "2", "3"]) await cache.get(key, async () => "no");
    const again = async (): Promise<string> => "asked again";
    assert.equal(await cache.get("good", again), "yes");
    assert.equal(await cache.get("3", again), "no");
    assert.equal(await cache.get("1", again), "asked again");
  });
});
