import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LeaderTerm } from "@kip/k8s-client";
import { silentLogger } from "@kip/base";
import { podWith } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { Fence } from "../node/fence.ts";
import type { PodProvider } from "../pod-provider.ts";
import { pollProvider } from "../polling/poll-provider.ts";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { boundOptionalParts } from "./optional-calls.ts";

/** A provider with all that is optional for pods, and what was called of it. */
function whole() {
  const called: string[] = [];
  const parts = {
    admit: async () => void called.push("admit"),
    resume: async () => void called.push("resume"),
    podAllocatable: async () => ({ cpu: String(called.push("podAllocatable")) }),
    metricFamilies: () => (called.push("metricFamilies"), []),
    nodeLog: async () => String(called.push("nodeLog")),
    readsEnvFiles: true,
    holdsBackContainers: true,
    hasLogStreams: true,
  };
  return { called, provider: Object.assign(new MemoryProvider(), parts) };
}

async function callAll(provider: PodProvider): Promise<void> {
  const pod = podWith();
  await provider.admit?.(pod);
  await provider.resume?.(pod);
  await provider.podAllocatable?.(pod);
  provider.metricFamilies?.();
  await provider.nodeLog?.("", new AbortController().signal);
  const { readsEnvFiles, holdsBackContainers, hasLogStreams } = provider;
  assert.deepEqual([readsEnvFiles, holdsBackContainers, hasLogStreams], [true, true, true]);
}

const all = ["admit", "resume", "podAllocatable", "metricFamilies", "nodeLog"];

describe("boundOptionalParts()", () => {
  it("has nothing of a provider without them", () => {
    assert.deepEqual(boundOptionalParts({ readsEnvFiles: false }), {});
  });

  it("reaches a provider behind the fence of a replica", async () => {
    const { provider, called } = whole();
    const term = { number: 1, isHeld: () => true } as unknown as LeaderTerm; // what a fence asks
    await callAll(new Fence(provider, term).provider);
    assert.deepEqual(called, all);
  });

  it("reaches a provider that is polled, which also follows a pod that it resumes", async () => {
    const { provider, called } = whole();
    let asked = 0;
    const status = async () => (asked++, { phase: "Running" });
    const statuses = async () => new Map();
    const polled = Object.assign(provider, { start: async () => {}, status, statuses });
    const options = { clock: new ManualClock(), logger: silentLogger };
    await callAll(pollProvider(polled, options));
    assert.deepEqual(called, all);
    assert.equal(asked, 1);
  });
});
