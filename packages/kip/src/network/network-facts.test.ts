import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { NetworkFacts } from "@kip/cloud";
import { ManualClock } from "@kip/testing";
import { KnownNetworkFacts } from "./network-facts.ts";

const facts = (name: string): NetworkFacts => ({
  nameservers: [name],
  searchDomains: [],
  cidrs: [],
});

/** A cloud that answers when the test tells it to. */
function start() {
  const asked: PromiseWithResolvers<NetworkFacts>[] = [];
  const clock = new ManualClock();
  const networkFacts = async (): Promise<NetworkFacts> => {
    const answer = Promise.withResolvers<NetworkFacts>();
    asked.push(answer);
    return await answer.promise;
  };
  const known = new KnownNetworkFacts({ driver: { networkFacts }, clock, logger: silentLogger });
  return { asked, clock, known };
}

describe("KnownNetworkFacts", () => {
  it("asks the cloud once for all pods that wait", async () => {
    const { asked, known } = start();
    const waiting = [known.get(), known.get()];
    asked[0]?.resolve(facts("a"));
    assert.deepEqual(await Promise.all([...waiting, known.get()]), Array(3).fill(facts("a")));
    assert.equal(asked.length, 1);
  });

  it("asks again after a minute and not before, and waits for no answer", async () => {
    const { asked, clock, known } = start();
    const first = known.get();
    asked[0]?.resolve(facts("a"));
    await first;
    await clock.advance(59_000);
    await known.get();
    assert.equal(asked.length, 1);
    await clock.advance(1000);
    assert.deepEqual(await known.get(), facts("a"));
    assert.deepEqual(await known.get(), facts("a"));
    assert.equal(asked.length, 2);
    asked[1]?.resolve(facts("b"));
    await new Promise(setImmediate);
    assert.deepEqual(await known.get(), facts("b"));
  });

  it("keeps what is known while the cloud is away, and fails only if nothing is", async () => {
    const { asked, clock, known } = start();
    const failing = known.get();
    asked[0]?.reject(new Error("away"));
    await assert.rejects(failing, /away/);
    const first = known.get();
    asked[1]?.resolve(facts("a"));
    await first;
    await clock.advance(60_000);
    await known.get();
    asked[2]?.reject(new Error("away"));
    await new Promise(setImmediate);
    assert.deepEqual(await known.get(), facts("a"));
  });
});
