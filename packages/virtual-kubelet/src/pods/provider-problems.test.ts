import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { ManualClock } from "@kip/testing";
import { ProviderProblems } from "./provider-problems.ts";

function start() {
  const clock = new ManualClock();
  const api = { waitMs: 0 };
  const reported: (string | undefined)[] = [];
  const problems = new ProviderProblems({
    clock,
    logger: silentLogger,
    pod: () => ({}) as Pod, // the fields that are read
    setCondition: ({ reason }) => void reported.push(reason),
    recordEvent: (_pod, { reason }) => void reported.push(reason),
    slowCallMs: 60_000,
    apiWaitMs: () => api.waitMs,
    signal: new AbortController().signal,
  });
  return { clock, api, reported, problems };
}

const slow = ["ProviderNotResponding", "ProviderNotResponding"];

describe("ProviderProblems.watch()", () => {
  it("reports a call once that takes longer than it may, by an event and a condition", async () => {
    const { clock, reported, problems } = start();
    const call = Promise.withResolvers<void>();
    const watched = problems.watch("remove", () => call.promise, 5);
    await clock.advance(64_999);
    assert.deepEqual(reported, []);
    await clock.advance(1);
    assert.deepEqual(reported, slow);
    await clock.advance(600_000);
    call.resolve();
    await watched;
    assert.deepEqual(reported, slow);
  });

  it("reports no call while requests wait for their turn at the API server", async () => {
    const { clock, api, reported, problems } = start();
    const [ending, hanging] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    api.waitMs = 20_000;
    const ended = problems.watch("remove", () => ending.promise);
    const hung = problems.watch("remove", () => hanging.promise);
    await clock.advance(200_000);
    ending.resolve();
    await ended;
    api.waitMs = 0;
    assert.deepEqual(reported, []);
    await clock.advance(60_000);
    assert.deepEqual(reported, slow, "only that which goes on");
    hanging.resolve();
    await hung;
  });
});
