import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ManualClock } from "@kip/testing";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { ProviderPing } from "./provider-ping.ts";

const { signal } = new AbortController();

describe("ProviderPing", () => {
  it("pings once at a time, and treats a provider that does not answer as failing (N8)", async () => {
    const clock = new ManualClock();
    const provider = new MemoryProvider();
    let calls = 0;
    let cancelled = 0;
    provider.ping = async (limit?: AbortSignal) => {
      calls++;
      limit?.addEventListener("abort", () => cancelled++);
      await new Promise(() => {});
    };
    const ping = new ProviderPing(provider, clock, 100);
    const answers = [ping.ping(signal), ping.ping(signal)];
    await clock.advance(100);
    for (const answer of await Promise.all(answers)) {
      assert.equal(answer?.reason, "ProviderNotResponding");
      assert.match(answer.message, /within 0.1 s/);
    }
    const third = ping.ping(signal);
    await clock.advance(100);
    await third;
    assert.equal(calls, 1);
    assert.equal(cancelled, 1);
  });

  it("gives the reason why the provider is not ready (N9)", async () => {
    const provider = new MemoryProvider();
    provider.failures.ping.push(new Error("the cloud is away"));
    const ping = new ProviderPing(provider, new ManualClock(), 100);
    assert.deepEqual(await ping.ping(signal), {
      reason: "ProviderNotReady",
      message: "the cloud is away",
    });
    assert.equal(await ping.ping(signal), undefined);
  });
});
