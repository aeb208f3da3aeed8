import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { KipLife, KipWorld, pass } from "../testing/kip-life.ts";

describe("the life of a Cell", { timeout: 60_000 }, () => {
  it("is four writes: as it is made, as the pod is sent, as its end is asked for, and as it goes", async () => {
    const world = new KipWorld(new ManualClock(), 500);
    const writes: string[] = [];
    world.api.watchers.add(({ type, cell: { metadata, status } }) => {
      const isEnding = metadata.deletionTimestamp !== undefined;
      const phase = status?.phase ?? "no phase";
      writes.push(type === "deleted" ? "deleted" : isEnding ? "deletion asked for" : phase);
    });
    const life = new KipLife(world);
    await life.start();
    world.addPod("p", "100m");
    life.apply("p");
    await pass(world, 15_000, 100);
    assert.deepEqual(world.agents.pods(), ["p"]);
    world.pods.delete("p");
    await life.sweep();
    await pass(world, 5000, 100);
    await life.kill();
    assert.deepEqual(writes, ["no phase", "Claimed", "deletion asked for", "deleted"]);
  });
});
