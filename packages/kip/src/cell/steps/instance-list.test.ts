import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Instance } from "@kip/cloud";
import { InstanceList } from "./instance-list.ts";

/** A cloud whose list calls the test answers one by one. */
function slowCloud() {
  const asked: PromiseWithResolvers<readonly Instance[]>[] = [];
  const list = async (): Promise<readonly Instance[]> => {
    const answer = Promise.withResolvers<readonly Instance[]>();
    asked.push(answer);
    return await answer.promise;
  };
  return { asked, instances: new InstanceList({ driver: { list } }) };
}

const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe("InstanceList", () => {
  it("asks the cloud once for all cells that look at the same time", async () => {
    const { asked, instances } = slowCloud();
    const all = Array.from({ length: 100 }, async () => await instances.get());
    await turn();
    assert.equal(asked.length, 1);
    asked[0]?.resolve([]);
    await Promise.all(all);
  });

  it("gives no cell a list that was asked for before it asked", async () => {
    const { asked, instances } = slowCloud();
    const first = instances.get();
    await turn();
    const later = [instances.get(), instances.get()];
    await turn();
    assert.equal(asked.length, 1);
    asked[0]?.resolve([]);
    await first;
    await turn();
    assert.equal(asked.length, 2);
    const one = [{ id: "i-1" } as Instance]; // never looked at
    asked[1]?.resolve(one);
    assert.deepEqual(await Promise.all(later), [one, one]);
  });

  it("fails all that asked for the list that failed, and none after them", async () => {
    const { asked, instances } = slowCloud();
    const both = Promise.allSettled([instances.get(), instances.get()]);
    await turn();
    asked[0]?.reject(new Error("throttled"));
    assert.deepEqual(
      (await both).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    const next = instances.get();
    await turn();
    asked[1]?.resolve([]);
    assert.deepEqual(await next, []);
  });
});
