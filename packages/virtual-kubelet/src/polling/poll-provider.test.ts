import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { podWith } from "@kip/k8s-types/testing";
import type { PodStatusUpdate, ResolvedPod } from "../pod-provider.ts";
import { ManualClock } from "@kip/testing";
import { pollProvider } from "./poll-provider.ts";
import type { PolledPodProvider } from "./polled-provider.ts";

const { signal } = new AbortController();
const pod = podWith({ spec: { containers: [{ name: "main" }] } });
const resolved: ResolvedPod = {
  pod,
  env: new Map(),
  lateEnv: new Map(),
  files: new Map(),
  pullSecrets: [],
};

function polled(status: PolledPodProvider["status"], more: Partial<PolledPodProvider> = {}) {
  const clock = new ManualClock();
  const reported: PodStatusUpdate[] = [];
  const provider = pollProvider(
    {
      apply: async () => {},
      remove: async () => {},
      removeUnknown: async () => {},
      presence: async () => "present",
      list: async () => [],
      nodeFacts: async () => ({ capacity: {}, internalIp: "192.0.2.1" }),
      ping: async () => {},
      status,
      ...more,
    },
    { clock, logger: silentLogger },
  );
  const started = provider.start({
    podStatus: (update) => void reported.push(update),
    podEvent: () => {},
    nodeChanged: () => {},
  });
  return { provider, clock, reported, started };
}

const main = { name: "main", image: "x", imageID: "", ready: false, restartCount: 0 };

describe("pollProvider()", () => {
  it("asks right after an apply, then every five seconds, and not after the removal (P14)", async () => {
    let asked = 0;
    const { provider, clock, reported, started } = polled(async () => {
      asked++;
      return { phase: "Running" };
    });
    await started;
    await provider.apply(resolved, signal);
    await clock.advance(0);
    assert.equal(asked, 1);
    await clock.advance(10_000);
    assert.equal(asked, 3);
    await provider.remove(pod, 0, signal);
    await clock.advance(60_000);
    assert.equal(asked, 4);
    assert.equal(reported.at(-1)?.status.phase, "Failed");
    assert.equal(reported.at(-1)?.status.reason, "Terminated");
    await provider.stop?.();
    assert.equal(clock.sleepers, 0);
  });

  it("shows a pod that was removed before it ended as failed, because its Job must not count it as done", async () => {
    const { provider, reported, started } = polled(async () => undefined);
    await started;
    for (const state of [{ waiting: {} }, { running: {} }]) {
      const status = { phase: "Pending", containerStatuses: [{ ...main, state }] };
      await provider.remove({ ...pod, status }, 0, signal);
      const last = reported.at(-1)?.status;
      assert.equal(last?.phase, "Failed");
      assert.equal(last.containerStatuses?.[0]?.state?.terminated?.exitCode, 137);
    }
    await provider.stop?.();
  });

  it("shows the end of a pod that has ended since the last question when it is removed", async () => {
    const exited = { phase: "Succeeded" };
    for (const isKnown of [true, false]) {
      let answer: PodStatus | undefined = { phase: "Running" };
      const remove = async (): Promise<void> => void (answer = undefined);
      const { provider, clock, reported, started } = polled(async () => answer, { remove });
      await started;
      if (isKnown) await provider.apply(resolved, signal);
      await clock.advance(0);
      answer = exited;
      await provider.remove({ ...pod, status: { phase: "Running" } }, 0, signal);
      assert.deepEqual(reported.at(-1)?.status, exited);
      await provider.stop?.();
    }
  });

  it("shows a removed pod as succeeded if its regular containers had exited with 0", async () => {
    const sidecar = { ...main, name: "sidecar", started: true, state: { running: {} } };
    const status: PodStatus = {
      phase: "Running",
      initContainerStatuses: [sidecar],
      containerStatuses: [{ ...main, state: { terminated: { exitCode: 0 } } }],
    };
    const { provider, reported, started } = polled(async () => status);
    await started;
    const initContainers = [{ name: "sidecar", restartPolicy: "Always" }];
    const job = podWith({ spec: { initContainers, containers: [{ name: "main" }] }, status });
    await provider.remove(job, 0, signal);
    const last = reported.at(-1)?.status;
    assert.equal(last?.phase, "Succeeded");
    assert.equal(last.initContainerStatuses?.[0]?.state?.terminated?.exitCode, 137);
    await provider.stop?.();
  });

  it("reports one end of a pod that is missing or has ended while it is being removed", async () => {
    for (const [end, expected] of [
      [undefined, ["Failed Terminated"]],
      [{ phase: "Succeeded" }, ["Succeeded undefined"]],
    ] as const) {
      const held = Promise.withResolvers<void>();
      let answer: PodStatus | undefined = { phase: "Running" };
      const { provider, clock, reported, started } = polled(async () => answer, {
        remove: () => held.promise,
      });
      await started;
      await provider.apply(resolved, signal);
      await clock.advance(0);
      const running = { ...pod, status: answer };
      const calls = [30, 1].map((seconds) => provider.remove(running, seconds, signal));
      answer = end;
      await clock.advance(5000);
      held.resolve();
      await Promise.all(calls);
      const ends = reported.filter(({ status }) => status.phase !== "Running");
      assert.deepEqual(
        ends.map(({ status }) => `${status.phase} ${status.reason}`),
        expected,
      );
      await provider.stop?.();
    }
  });

  it("asks for a pod that an earlier process has started, although its Secret is missing", async () => {
    const { provider, clock, reported, started } = polled(async () => ({ phase: "Succeeded" }));
    await started;
    await provider.resume?.(pod);
    await clock.advance(0);
    assert.equal(reported.at(-1)?.status.phase, "Succeeded");
    await provider.stop?.();
  });

  it("does not take a pod for lost that its provider may never have got", async () => {
    const { provider, clock, reported, started } = polled(async () => undefined);
    await started;
    // A pod that waited for its Secret when the process was restarted, while the backend was away.
    await provider.resume?.({ ...pod, status: { phase: "Pending" } });
    await clock.advance(120_000);
    assert.equal(reported.length, 0);
    await provider.apply(resolved, signal);
    await clock.advance(59_000);
    assert.equal(reported.length, 0);
    await clock.advance(10_000);
    assert.equal(reported.at(-1)?.status.reason, "NotFound");
    await provider.stop?.();
  });

  it("gives a pod that ran before a restart and is applied again as much time as a new one", async () => {
    const { provider, clock, reported, started } = polled(async () => undefined);
    await started;
    await provider.apply({ ...resolved, pod: { ...pod, status: { phase: "Running" } } }, signal);
    await clock.advance(59_000);
    assert.equal(reported.length, 0);
    await clock.advance(10_000);
    assert.equal(reported.at(-1)?.status.reason, "NotFound");
    await provider.stop?.();
  });

  it("passes on finish if the provider has it, and no longer asks for the pod", async () => {
    let asked = 0;
    const finished: Pod[] = [];
    const { provider, clock, reported, started } = polled(
      async () => {
        asked++;
        return { phase: "Running" };
      },
      { finish: async (each) => void finished.push(each) },
    );
    await started;
    await provider.apply(resolved, signal);
    await clock.advance(0);
    await provider.finish?.(pod, signal);
    await clock.advance(60_000);
    assert.deepEqual([finished, asked, reported.length], [[pod], 1, 1]);
    assert.equal("finish" in polled(async () => undefined).provider, false);
    await provider.stop?.();
  });

  it("leaves a pod alone while the provider does not know its status", async () => {
    const answers: (() => Promise<undefined>)[] = [
      () => Promise.reject(new Error("away")),
      () => new Promise(() => {}),
    ];
    const { provider, clock, reported, started } = polled(
      () => answers.shift()?.() ?? Promise.resolve(undefined),
    );
    await started;
    await provider.apply(resolved, signal);
    await clock.advance(59_000);
    assert.equal(reported.length, 0);
    await clock.advance(10_000);
    assert.equal(reported[0]?.status.phase, "Failed");
    assert.equal(reported[0].status.reason, "NotFound");
    await provider.stop?.();
  });

  it("reads all statuses from one answer if possible, and has only the optional calls of its provider", async () => {
    let asked = 0;
    const { provider, clock, reported, started } = polled(
      async () => {
        asked++;
        return { phase: "Pending" };
      },
      {
        statuses: async () => new Map([["u", { phase: "Running" }]]),
        exec: async () => ({ exitCode: 0 }),
      },
    );
    await started;
    await provider.apply(resolved, signal);
    await clock.advance(5000);
    assert.equal(asked, 1);
    assert.equal(reported.at(-1)?.status.phase, "Running");
    assert.ok(provider.exec && !provider.logs);
    await provider.stop?.();
  });

  it("ignores an answer that was overtaken by a newer one", async () => {
    const held = Promise.withResolvers<ReadonlyMap<string, PodStatus>>();
    const { provider, clock, reported, started } = polled(async () => ({ phase: "Running" }), {
      statuses: () => held.promise,
    });
    await started;
    await provider.apply(resolved, signal);
    await clock.advance(5000);
    await provider.apply(resolved, signal);
    held.resolve(new Map([["u", { phase: "Pending" }]]));
    await clock.advance(0);
    assert.equal(reported.at(-1)?.status.phase, "Running");
    await provider.stop?.();
  });
});
