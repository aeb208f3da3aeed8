import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { CodedError, type CodedErrorOptions, silentLogger } from "@kip/base";
import type { ApiClient } from "@kip/k8s-client";
import { K8sError, wireTime } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import { VirtualKubeletError } from "../errors.ts";
import type { ResolvedPod } from "../pod-provider.ts";
import { MemoryProvider } from "../testing/memory-provider.ts";
import { resolvedWith } from "../testing/resolved-pod.ts";
import { NodeMetrics } from "../metrics/node-metrics.ts";
import { noTracer } from "../tracing.ts";
import { PodWorker } from "./pod-worker.ts";

let clock: ManualClock;
let provider: MemoryProvider;
let events: string[];
let writes: unknown[];
let ended: number;
let metrics: NodeMetrics;
let version: number;
/** The pod on the API server. */
let stored: Pod;

beforeEach(() => {
  clock = new ManualClock();
  provider = new MemoryProvider();
  events = [];
  writes = [];
  ended = 0;
  metrics = new NodeMetrics();
  version = 1;
  stored = podWith({ spec: { containers: [{ name: "main", image: "x:1" }] } });
});

/** Changes the pod on the API server. Its status stays if no other is given. */
function pod(change: PodParts = {}): Pod {
  const metadata = { ...change.metadata, resourceVersion: String(version++) };
  stored = podWith({ ...stored, ...change, metadata });
  return stored;
}

/** Accepts status patches like the API server, after `hold`. */
function client(hold: () => Promise<void> = () => Promise.resolve()): ApiClient {
  return {
    patch: async (_path: string, body: { readonly status?: Pod["status"] }) => {
      writes.push(body.status);
      await hold();
      return pod({ ...stored, status: { ...stored.status, ...body.status } });
    },
    delete: async () => ({}),
  } as unknown as ApiClient; // all that a worker uses of it
}

async function start(
  first: Pod = pod(),
  nodeClient: ApiClient = client(),
  api: ApiClient = nodeClient,
  resolve = async (current: Pod): Promise<ResolvedPod> => resolvedWith(current),
): Promise<PodWorker> {
  await provider.start({
    podStatus: (update) => worker.reportStatus(update),
    podEvent: () => {},
    nodeChanged: () => {},
  });
  const worker: PodWorker = new PodWorker(first, {
    client: api,
    nodeClient,
    provider,
    clock,
    logger: silentLogger,
    resolve,
    recordEvent: (_about, { reason }) => void events.push(reason),
    backoff: { initialMs: 1000, maxMs: 8000, jitter: 0 },
    slowCallMs: 60_000,
    metrics,
    tracer: noTracer,
    onEnd: () => void ended++,
  });
  worker.update(first);
  await clock.advance(0);
  return worker;
}

const deleting = { deletionTimestamp: "2030-01-01T00:00:00Z", deletionGracePeriodSeconds: 0 };

describe("PodWorker", () => {
  it("repeats a failing step without end, with pauses that grow to a limit (Q1)", async () => {
    provider.failures.apply.push(...Array.from({ length: 24 }, () => new Error("no")));
    const worker = await start();
    assert.equal(provider.count("apply"), 1);
    await clock.advance(1000 + 2000 + 4000);
    assert.equal(provider.count("apply"), 4);
    await clock.advance(20 * 8000);
    assert.equal(provider.count("apply"), 24);
    await clock.advance(8000);
    assert.equal(provider.count("apply"), 25);
    assert.equal(worker.pod.status?.phase, "Running");
    assert.deepEqual([...new Set(events)], ["ProviderCreateFailed"]);
  });

  it("retries when the provider asks for it (Q2)", async () => {
    provider.failures.apply.push(
      new CodedError("X", "Cannot now: throttled", { retryAfterMs: 30_000 }),
    );
    await start();
    await clock.advance(29_999);
    assert.equal(provider.count("apply"), 1);
    await clock.advance(1);
    assert.equal(provider.count("apply"), 2);
  });

  it("does not repeat a step that is no longer needed (Q3)", async () => {
    provider.failures.apply.push(new Error("no"), new Error("no"));
    const worker = await start();
    worker.objectDeleted();
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 1);
    assert.equal(provider.count("removeUnknown"), 1);
    assert.equal(ended, 1);
  });

  it("ends when a removal that runs beside the one for a deleted object was first", async () => {
    const held = Promise.withResolvers<void>();
    provider.gate = async ({ call }) => {
      if (call === "remove") await held.promise;
      if (call === "removeUnknown") throw new VirtualKubeletError("VK_NOT_FOUND", "none");
    };
    const worker = await start();
    worker.update(pod({ metadata: deleting }));
    await clock.advance(0);
    worker.objectDeleted();
    await clock.advance(0);
    held.resolve();
    await clock.advance(60_000);
    assert.deepEqual([ended, worker.isFailing, provider.count("removeUnknown")], [1, false, 1]);
  });

  it("keeps the watch's copy of a version that a write also returned, and counts the start once", async () => {
    const held = Promise.withResolvers<void>();
    const created = { creationTimestamp: "2030-01-01T00:00:00Z" };
    const first = pod({ metadata: created });
    provider.report = () => {};
    const worker = await start(
      first,
      client(async () => {
        // The watch is faster than the response, which has the same state.
        worker.update(pod({ ...stored, status: { phase: "Running" } }));
        version--;
        await held.promise;
      }),
    );
    worker.reportStatus({ uid: "u", status: { phase: "Running" } });
    await clock.advance(0);
    const seen = worker.pod;
    assert.equal(seen.status?.phase, "Running");
    held.resolve();
    await clock.advance(0);
    assert.equal(worker.pod, seen);
    assert.match(metrics.text(), /pod_start_duration_seconds_count 1\n/);
  });

  it("waits without a timer when there is nothing to do (Q4)", async () => {
    const worker = await start();
    assert.equal(clock.sleepers, 0);
    await clock.advance(3_600_000);
    assert.equal(provider.calls.length, 1);
    worker.stop();
  });

  it("ends its pause on a change, and begins with short pauses again (Q5, Q8)", async () => {
    provider.failures.apply.push(...Array.from({ length: 5 }, () => new Error("no")));
    const worker = await start();
    await clock.advance(1000 + 2000 + 4000);
    assert.equal(provider.count("apply"), 4);
    worker.update(pod({ spec: { containers: [{ name: "main", image: "x:2" }] } }));
    await clock.advance(0);
    assert.equal(provider.count("apply"), 5);
    await clock.advance(1000);
    assert.equal(provider.count("apply"), 6);
    assert.equal(provider.pods.get("u")?.pod.spec.containers[0]?.image, "x:2");
  });

  it("pauses between failing attempts, however often the pod changes", async () => {
    provider.failures.apply.push(...Array.from({ length: 1000 }, () => new Error("no")));
    const worker = await start();
    for (let change = 0; change < 200; change++) {
      worker.update(pod({ metadata: { annotations: { change: String(change) } } }));
      await clock.advance(10);
    }
    assert.ok(provider.count("apply") <= 4, `${provider.count("apply")} attempts in 2 s`);
  });

  it("keeps a pause that its provider asked for, whatever changes of the pod", async () => {
    provider.failures.apply.push(
      new CodedError("X", "Cannot now: throttled", { retryAfterMs: 30_000 }),
    );
    const worker = await start();
    worker.wake();
    await clock.advance(29_999);
    assert.equal(provider.count("apply"), 1);
    await clock.advance(1);
    assert.equal(provider.count("apply"), 2);
  });

  it("applies the pod once more after several changes during a call (Q6)", async () => {
    const held = Promise.withResolvers<void>();
    provider.gate = () => held.promise;
    const worker = await start();
    for (const image of ["x:2", "x:3", "x:4"])
      worker.update(pod({ spec: { containers: [{ name: "main", image }] } }));
    held.resolve();
    await clock.advance(0);
    assert.equal(provider.count("apply"), 2);
    assert.equal(provider.pods.get("u")?.pod.spec.containers[0]?.image, "x:4");
  });

  it("does not wait for other pods (Q7)", async () => {
    let inside = 0;
    const all = Promise.withResolvers<void>();
    provider.gate = async () => {
      if (++inside === 20) all.resolve();
      await all.promise;
    };
    for (let index = 0; index < 20; index++) await start(pod({ metadata: { uid: `u${index}` } }));
    await all.promise;
    await clock.advance(0);
    assert.equal(provider.pods.size, 20);
  });

  it("writes the latest of many statuses, and no unchanged one (M1)", async () => {
    provider.report = () => {};
    let held = Promise.withResolvers<void>();
    const worker = await start(
      pod(),
      client(() => held.promise),
    );
    const tell = (message: string): void =>
      worker.reportStatus({ uid: "u", status: { phase: "Running", message } });
    tell("0");
    await clock.advance(0);
    assert.equal(writes.length, 1);
    for (let count = 1; count <= 10; count++) tell(String(count));
    const first = held;
    held = Promise.withResolvers();
    held.resolve();
    first.resolve();
    await clock.advance(0);
    assert.equal(writes.length, 2);
    assert.equal((writes[1] as Pod["status"])?.message, "10");
    tell("10");
    await clock.advance(0);
    assert.equal(writes.length, 2);
  });

  it("distinguishes errors by their code, wrapped or not (D1)", async () => {
    const wrapped = new CodedError("X", "Cannot start", {
      cause: new VirtualKubeletError("VK_INVALID_POD", "Cannot run it: too big"),
    });
    provider.failures.apply.push(wrapped);
    const worker = await start();
    assert.equal(worker.pod.status?.phase, "Failed");
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 1);
    provider.failures.remove.push(
      new Error("Cannot remove", { cause: new VirtualKubeletError("VK_NOT_FOUND", "none") }),
    );
    const before = provider.count("remove");
    const other = await start(pod({ status: { phase: "Pending" } }));
    other.update(pod({ metadata: deleting, status: { phase: "Failed" } }));
    await clock.advance(60_000);
    assert.equal(provider.count("remove"), before + 1);
  });

  it("asks the provider to admit a pod before it looks anything up, once", async () => {
    const asked: string[] = [];
    const refusal = new VirtualKubeletError("VK_INVALID_POD", "no", { reason: "NodePorts" });
    const answers: Record<string, Error | undefined> = { a: undefined, b: refusal };
    const admit = async ({ metadata }: Pod): Promise<void> => {
      asked.push(metadata.uid);
      const answer = answers[metadata.uid];
      if (answer) throw answer;
    };
    Object.assign(provider, { admit });
    const admitted = await start(pod({ metadata: { uid: "a" } }));
    admitted.update(pod({ metadata: { uid: "a", labels: { changed: "yes" } } }));
    await clock.advance(0);
    const refused = await start(pod({ metadata: { uid: "b" }, status: {} }));
    assert.deepEqual([asked, provider.count("apply")], [["a", "b"], 2]);
    const { phase, reason, message } = refused.pod.status ?? {};
    assert.deepEqual([phase, reason, message], ["Failed", "NodePorts", "Pod was rejected: no"]);
    assert.equal(events.at(-1), "NodePorts");
  });

  it("asks again after a restart about a pod that has only waited, not about one that its provider had", async () => {
    const asked: string[] = [];
    const resumed: string[] = [];
    Object.assign(provider, {
      admit: async ({ metadata }: Pod): Promise<void> => void asked.push(metadata.uid),
      resume: async ({ metadata }: Pod): Promise<void> => void resumed.push(metadata.uid),
    });
    const resolve = () =>
      Promise.reject(new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found'));
    const waiting = await start(pod(), client(), client(), resolve);
    await clock.advance(60_000);
    assert.deepEqual([asked, resumed], [["u"], []]);
    assert.ok(waiting.pod.status?.startTime !== undefined);
    waiting.stop();
    await start(pod({ status: waiting.pod.status ?? {} }), client(), client(), resolve);
    await clock.advance(60_000);
    assert.deepEqual([asked, resumed], [["u", "u"], []]);
    const status = { startTime: "2030-01-01T00:00:00Z" };
    const had = pod({ metadata: { uid: "had" }, status: { ...status, phase: "Pending" } });
    provider.pods.set("had", resolvedWith(had));
    await start(had, client(), client(), resolve);
    const ran = pod({ metadata: { uid: "ran" }, status: { ...status, phase: "Running" } });
    await start(ran, client(), client(), resolve);
    assert.deepEqual([asked.length, resumed], [2, ["had", "ran"]]);
  });

  it("has a pod followed that an earlier process has started, while its Secret is missing", async () => {
    const resumed: string[] = [];
    Object.assign(provider, {
      resume: async ({ metadata }: Pod): Promise<void> => void resumed.push(metadata.uid),
    });
    let isMissing = true;
    const resolve = async (current: Pod): Promise<ResolvedPod> => {
      if (isMissing) throw new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found');
      return resolvedWith(current);
    };
    await start(pod({ metadata: { uid: "new" } }), client(), client(), resolve);
    assert.deepEqual(resumed, []);
    const status = { phase: "Running", startTime: "2030-01-01T00:00:00Z" };
    const worker = await start(
      pod({ metadata: { uid: "old" }, status }),
      client(),
      client(),
      resolve,
    );
    assert.deepEqual([resumed, provider.count("apply")], [["old"], 0]);
    assert.equal(worker.pod.status?.phase, "Running");
    isMissing = false;
    worker.wake();
    await clock.advance(0);
    assert.equal(provider.count("apply"), 1);
    isMissing = true;
    worker.wake();
    await clock.advance(0);
    assert.deepEqual(resumed, ["old"]);
  });

  it("keeps the status of a pending pod of which a container has run, while its Secret is missing", async () => {
    const resolve = () =>
      Promise.reject(new VirtualKubeletError("VK_UNRESOLVED", "services have not been synced yet"));
    const init = {
      name: "init",
      image: "x:1",
      imageID: "",
      ready: true,
      restartCount: 2,
      state: { terminated: { exitCode: 0 } },
    };
    const status = {
      phase: "Pending",
      startTime: "2030-01-01T00:00:00Z",
      initContainerStatuses: [init],
    };
    const spec = { ...stored.spec, initContainers: [{ name: "init", image: "x:1" }] };
    const worker = await start(pod({ spec, status }), client(), client(), resolve);
    await clock.advance(0);
    assert.deepEqual(worker.pod.status?.initContainerStatuses, [init]);
  });

  it("keeps the status of a pending pod that its provider has or fails to start", async () => {
    const main = { name: "main", image: "x:1", imageID: "", ready: false, restartCount: 0 };
    const status = {
      phase: "Pending",
      startTime: "2030-01-01T00:00:00Z",
      podIP: "192.0.2.1",
      podIPs: [{ ip: "192.0.2.1" }],
      containerStatuses: [{ ...main, state: { waiting: { reason: "ImagePullBackOff" } } }],
    };
    const had = pod({ metadata: { uid: "had" }, status });
    provider.pods.set("had", resolvedWith(had));
    const resolve = () =>
      Promise.reject(new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found'));
    const waiting = await start(had, client(), client(), resolve);
    await clock.advance(60_000);
    assert.deepEqual(waiting.pod.status, status);
    provider.failures.apply.push(new Error("no"));
    const failing = await start(pod({ status }));
    const { reason, podIP, containerStatuses } = failing.pod.status ?? {};
    assert.deepEqual([reason, podIP], ["ProviderFailed", status.podIP]);
    assert.deepEqual(containerStatuses, status.containerStatuses);
  });

  it("ends a pod that has waited for its Secret for longer than it may be active", async () => {
    const resolve = () =>
      Promise.reject(new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found'));
    const initContainers = [{ name: "init", image: "x:1" }];
    const spec = { ...stored.spec, activeDeadlineSeconds: 60, initContainers };
    // Bound while no process of the node was running. As in a kubelet, that does not count.
    const lastTransitionTime = wireTime(clock.now() - 100_000);
    const conditions = [{ type: "PodScheduled", status: "True", lastTransitionTime }] as const;
    const status = { phase: "Pending", conditions };
    const worker = await start(pod({ spec, status }), client(), client(), resolve);
    await clock.advance(50_000);
    assert.equal(worker.pod.status?.phase, "Pending");
    await clock.advance(20_000);
    const { phase, reason, ...shown } = worker.pod.status ?? {};
    assert.deepEqual([phase, reason], ["Failed", "DeadlineExceeded"]);
    assert.equal(events.at(-1), "DeadlineExceeded");
    // Only the container that was to run first has ended.
    assert.equal(
      shown.initContainerStatuses?.[0]?.state?.terminated?.reason,
      "ContainerStatusUnknown",
    );
    assert.equal(shown.containerStatuses?.[0]?.state?.waiting?.reason, "PodInitializing");
    const initialized = shown.conditions?.find(({ type }) => type === "Initialized");
    assert.notEqual(initialized?.status, "True");
  });

  it("leaves the deadline of a pod to its provider, which gets the wait for the Secret as well", async () => {
    const spec = { ...stored.spec, activeDeadlineSeconds: 60 };
    let isMissing = true;
    const resolve = async (current: Pod): Promise<ResolvedPod> => {
      if (isMissing) throw new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found');
      return resolvedWith(current);
    };
    const began = wireTime(clock.now());
    const worker = await start(pod({ spec }), client(), client(), resolve);
    await clock.advance(40_000);
    isMissing = false;
    await clock.advance(10_000);
    assert.equal(provider.pods.get(worker.uid)?.pod.status?.startTime, began);
    // After a restart, a pod that its provider has, or of which a container has run.
    isMissing = true;
    const startTime = "2000-01-01T00:00:00Z";
    for (const phase of ["Pending", "Running"]) {
      const status = { phase, startTime };
      const known = await start(pod({ spec, status }), client(), client(), resolve);
      await clock.advance(100_000);
      assert.equal(known.pod.status?.phase, phase);
      provider.pods.clear();
    }
  });

  it("tells the generation of a pod that waits or is rejected", async () => {
    const observed = ({ pod: { status } }: PodWorker) => [
      status?.phase,
      status?.observedGeneration,
    ];
    const resolve = () =>
      Promise.reject(new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found'));
    const first = pod({ metadata: { generation: 1 } });
    const waiting = await start(first, client(), client(), resolve);
    await clock.advance(1000);
    assert.deepEqual(observed(waiting), ["Pending", 1]);
    const spec = { ...stored.spec, activeDeadlineSeconds: 600 };
    waiting.update(pod({ metadata: { generation: 2 }, spec }));
    await clock.advance(60_000);
    assert.deepEqual(observed(waiting), ["Pending", 2]);
    await clock.advance(600_000);
    assert.deepEqual(observed(waiting), ["Failed", 2]);
    const refusal = new VirtualKubeletError("VK_INVALID_POD", "no");
    Object.assign(provider, { admit: () => Promise.reject(refusal) });
    const refused = await start(pod({ metadata: { uid: "b", generation: 3 }, status: {} }));
    assert.deepEqual(observed(refused), ["Failed", 3]);
  });

  it("never starts a pod that it has refused, although the pod changes before the API shows that", async () => {
    let isRefused = true;
    const admit = async (): Promise<void> => {
      if (isRefused) throw new VirtualKubeletError("VK_INVALID_POD", "no", { reason: "OutOfpods" });
    };
    Object.assign(provider, { admit });
    const held = Promise.withResolvers<void>();
    const worker = await start(
      pod(),
      client(() => held.promise),
    );
    isRefused = false;
    worker.update(pod({ metadata: { labels: { changed: "yes" } } }));
    worker.wake();
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 0);
    held.resolve();
    await clock.advance(60_000);
    assert.deepEqual([provider.count("apply"), worker.pod.status?.phase], [0, "Failed"]);
    assert.deepEqual(events, ["OutOfpods"]);
  });

  it("does not start a pod that has exceeded its deadline, although its Secret comes then", async () => {
    let isMissing = true;
    const resolve = async (current: Pod): Promise<ResolvedPod> => {
      if (isMissing) throw new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found');
      return resolvedWith(current);
    };
    const held = Promise.withResolvers<void>();
    const spec = { ...stored.spec, activeDeadlineSeconds: 60 };
    const status = { phase: "Pending", startTime: wireTime(clock.now() - 60_000) };
    const worker = await start(
      pod({ spec, status }),
      client(() => held.promise),
      client(),
      resolve,
    );
    assert.deepEqual(events, ["DeadlineExceeded"]);
    isMissing = false;
    worker.wake();
    await clock.advance(60_000);
    held.resolve();
    await clock.advance(60_000);
    const { phase, reason } = worker.pod.status ?? {};
    assert.deepEqual([provider.count("apply"), phase], [0, "Failed"]);
    assert.equal(reason, "DeadlineExceeded");
  });

  it("does not run a pod again that has ended, although the API does not show that yet", async () => {
    const held = Promise.withResolvers<void>();
    const worker = await start();
    assert.equal(provider.count("apply"), 1);
    const slow = await start(
      pod({ metadata: { uid: "slow" } }),
      client(() => held.promise),
    );
    provider.report("slow", "Succeeded");
    provider.pods.delete("slow");
    assert.equal(worker.shouldBePresent, true);
    assert.equal(slow.shouldBePresent, false);
    slow.update(pod({ metadata: { uid: "slow", labels: { changed: "yes" } } }));
    slow.wake();
    await clock.advance(60_000);
    assert.equal(provider.count("apply", "slow"), 1);
    held.resolve();
    await clock.advance(60_000);
    assert.deepEqual([provider.count("apply", "slow"), slow.pod.status?.phase], [1, "Succeeded"]);
  });

  it("does not run a pod again whose provider reports another status after its end", async () => {
    const held = Promise.withResolvers<void>();
    const worker = await start(
      pod(),
      client(() => held.promise),
    );
    provider.report("u", "Failed");
    provider.report("u", "Running");
    worker.wake();
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 1);
    held.resolve();
    await clock.advance(60_000);
    assert.deepEqual([provider.count("apply"), worker.pod.status?.phase], [1, "Failed"]);
  });

  it("does not have a pod admitted again that runs, although its provider reports no start time", async () => {
    let asked = 0;
    Object.assign(provider, { admit: async (): Promise<void> => void asked++ });
    await start(pod({ status: { phase: "Running" } }));
    assert.deepEqual([asked, provider.count("apply")], [0, 1]);
  });

  it("keeps a status that the provider reported before its call failed", async () => {
    // It writes once. Its next call has nothing to do.
    provider.gate = async ({ uid }) => {
      provider.gate = () => Promise.resolve();
      provider.pods.set(uid, resolvedWith(stored));
      provider.report(uid, "Running");
      provider.report = () => {};
      throw new Error("no answer of the backend in time");
    };
    const answered = Promise.withResolvers<void>();
    const worker = await start(
      pod(),
      client(() => answered.promise),
    );
    answered.resolve();
    await clock.advance(60_000);
    assert.equal(provider.count("apply"), 2);
    assert.equal(worker.pod.status?.phase, "Running");
    assert.deepEqual(
      writes.flatMap((status) => (status as Pod["status"])?.phase ?? []),
      ["Running"],
    );
  });

  it("does not repeat a status that the API server refuses", async () => {
    let refused = 0;
    const api = {
      patch: async () => {
        if (++refused > 10) throw new Error("it goes on");
        throw new K8sError("K8S_INVALID", "Cannot PATCH: a policy does not let anybody");
      },
    } as unknown as ApiClient; // all that a worker uses of it here
    const worker = await start(pod(), api);
    await clock.advance(1000);
    assert.equal(refused, 4, "the status, two shorter ones, and the condition that reports it");
    assert.equal(worker.isBusy, false);
  });

  it("uses the terminal phase of a status that is otherwise invalid", async () => {
    const worker = await start();
    const status = { phase: "Failed", reason: "Broken", containerStatuses: 7 as never };
    worker.reportStatus({ uid: "u", status });
    await clock.advance(0);
    assert.deepEqual([worker.pod.status?.phase, worker.pod.status?.reason], ["Failed", "Broken"]);
    assert.deepEqual(events, ["ProviderStatusInvalid"]);
    worker.reportStatus({ uid: "u", status: null as never });
  });

  it("goes on showing that a status is invalid when the call that reported it returns", async () => {
    provider.gate = async ({ uid }) =>
      worker?.reportStatus({ uid, status: { phase: "Excellent" } });
    provider.report = () => {};
    let worker: PodWorker | undefined;
    worker = await start();
    worker.wake();
    await clock.advance(0);
    const shown = (): string | undefined =>
      worker?.pod.status?.conditions?.find(({ type }) => type.endsWith("ProviderReady"))?.status;
    assert.equal(shown(), "False");
    provider.gate = async () => {};
    worker.wake();
    await clock.advance(0);
    assert.equal(shown(), "True");
  });

  it("fails a pod that never ran before it deletes the object, so that its Job sees an end", async () => {
    provider.report = () => {};
    const worker = await start(pod({ status: { phase: "Pending" } }));
    worker.update(pod({ metadata: deleting }));
    await clock.advance(0);
    assert.equal((writes.at(-1) as Pod["status"])?.phase, "Failed");
  });

  it("keeps the current conditions of other writers, not those that the provider has seen", async () => {
    const theirs = (status: string) => ({ conditions: [{ type: "theirs", status }] });
    const worker = await start(pod({ status: theirs("False") }));
    // The server keeps fields that a write omits.
    worker.update(pod({ status: { ...stored.status, ...theirs("True") } }));
    provider.report("u", "Succeeded");
    await clock.advance(0);
    const written = writes.flatMap((status) => (status as Pod["status"])?.conditions ?? []);
    assert.ok(written.length > 0);
    assert.ok(written.every(({ type }) => type !== "theirs"));
  });

  it("clears a problem that an earlier process reported", async () => {
    const type = "virtual-kubelet.io/ProviderReady";
    const conditions = [{ type, status: "False", reason: "ProviderCreateFailed" }];
    provider.report = () => {};
    const worker = await start(pod({ status: { phase: "Running", conditions } }));
    const complaint = (): string | undefined =>
      worker.pod.status?.conditions?.find((each) => each.type === type)?.status;
    assert.equal(complaint(), "True");
    // Such a provider copies the status from the pod that it got.
    worker.reportStatus({ uid: "u", status: { phase: "Running", reason: "Fine", conditions } });
    await clock.advance(0);
    assert.equal(complaint(), "True");
  });
});

describe("PodWorker, while a removal fails", () => {
  /** Fails each removal with a different message, like clouds that include a request's ID. */
  function refuseRemovals(options: CodedErrorOptions = {}): void {
    let count = 0;
    provider.gate = async ({ call }) => {
      if (call !== "remove") return;
      if (count > 50) await new Promise(() => {}); // enough to see that there is no pause
      throw new CodedError("X", `Cannot remove: request ${count++}`, options);
    };
  }

  /** Like a watch: each write comes back to the worker. */
  async function watched(): Promise<PodWorker> {
    let worker: PodWorker | undefined;
    const echo = async (): Promise<void> => queueMicrotask(() => worker?.update(stored));
    worker = await start(pod(), client(echo));
    return worker;
  }

  it("pauses between attempts although its own status changes with each of them", async () => {
    refuseRemovals();
    const worker = await watched();
    worker.update(pod({ metadata: deleting }));
    await clock.advance(0);
    assert.equal(provider.count("remove"), 1);
    await clock.advance(999);
    assert.equal(provider.count("remove"), 1);
    await clock.advance(1 + 2000 + 4000);
    assert.equal(provider.count("remove"), 4);
  });

  it("pauses whatever is written to the pod, and as long as the provider asked", async () => {
    refuseRemovals({ retryAfterMs: 30_000 });
    const worker = await watched();
    worker.update(pod({ metadata: deleting }));
    for (let second = 0; second < 29; second++) {
      await clock.advance(1000);
      worker.update(pod({ metadata: { ...deleting, annotations: { tick: String(second) } } }));
      worker.wake();
    }
    assert.equal(provider.count("remove"), 1);
    await clock.advance(1000);
    assert.equal(provider.count("remove"), 2);
  });

  it("removes at once when the deletion is new, and when its grace period gets shorter", async () => {
    refuseRemovals();
    const worker = await watched();
    provider.failures.apply.push(new Error("no"));
    worker.wake();
    await clock.advance(0);
    assert.equal(worker.isFailing, true);
    worker.update(pod({ metadata: { ...deleting, deletionGracePeriodSeconds: 30 } }));
    await clock.advance(0);
    assert.equal(provider.count("remove"), 1);
    worker.update(pod({ metadata: { ...deleting, deletionGracePeriodSeconds: 5 } }));
    await clock.advance(0);
    assert.equal(provider.count("remove"), 2);
    worker.update(pod({ metadata: { ...deleting, deletionGracePeriodSeconds: 5 } }));
    await clock.advance(0);
    assert.equal(provider.count("remove"), 2);
  });
});

describe("PodWorker, of a pod that is terminal in the API", () => {
  /** A provider that can stop a pod and keep its logs. Returns the UIDs of its calls. */
  function withFinish(failures: Error[] = []): string[] {
    const finished: string[] = [];
    const finish = async ({ metadata }: Pod): Promise<void> => {
      finished.push(metadata?.uid ?? "");
      const failure = failures.shift();
      if (failure) throw failure;
    };
    Object.assign(provider, { finish });
    return finished;
  }
  const failed = (): Pod => pod({ status: { ...stored.status, phase: "Failed" } });

  it("stops it once if another client set the phase", async () => {
    const finished = withFinish();
    const worker = await start();
    worker.update(failed());
    await clock.advance(0);
    worker.update(pod({ metadata: { annotations: { a: "b" } } }));
    await clock.advance(3_600_000);
    assert.deepEqual(finished, ["u"]);
    assert.equal(provider.count("remove"), 0);
  });

  it("stops it if the provider rejects a change of it", async () => {
    const finished = withFinish();
    const worker = await start();
    provider.failures.apply.push(
      new VirtualKubeletError("VK_INVALID_POD", "Cannot run it: too big"),
    );
    worker.update(pod({ spec: { containers: [{ name: "main", image: "x:2" }] } }));
    await clock.advance(0);
    assert.equal(worker.pod.status?.phase, "Failed");
    assert.deepEqual(finished, ["u"]);
  });

  it("removes it and keeps its object if the provider cannot finish pods", async () => {
    const deleted: string[] = [];
    const api = { ...client(), delete: async (path: string) => void deleted.push(path) };
    const worker = await start(pod(), api as unknown as ApiClient); // all that a worker uses of it
    worker.update(failed());
    await clock.advance(60_000);
    assert.deepEqual(
      [provider.count("remove"), await provider.presence("u"), deleted],
      [1, "absent", []],
    );
    worker.update(pod({ metadata: deleting }));
    await clock.advance(0);
    assert.deepEqual([provider.count("remove"), deleted.length], [1, 1]);
  });

  it("deletes an object again that the API server did not find for the node, as long as it is there", async () => {
    const notFound = new K8sError("K8S_NOT_FOUND", 'pods "web" not found', { httpStatus: 404 });
    const [deleted, read]: [number[], string[]] = [[], []];
    let isKnown = false;
    const asNode = {
      ...client(),
      delete: async () => {
        deleted.push(clock.monotonic());
        if (!isKnown) throw notFound;
      },
    };
    const get = async (path: string): Promise<Pod> => {
      read.push(path);
      return stored;
    };
    await start(
      pod({ metadata: deleting }),
      asNode as unknown as ApiClient, // all that a worker uses of them
      { get } as unknown as ApiClient,
    );
    assert.deepEqual([deleted.length, read.length], [1, 1]);
    await clock.advance(1000);
    assert.deepEqual([deleted.length, read.length], [2, 2]);
    isKnown = true;
    await clock.advance(60_000);
    assert.deepEqual([deleted.length, read.length], [3, 2]);
  });

  it("leaves it and its logs alone if the provider reported its end", async () => {
    const finished = withFinish();
    const worker = await start();
    provider.report("u", "Succeeded");
    await clock.advance(60_000);
    assert.equal(worker.pod.status?.phase, "Succeeded");
    assert.deepEqual([finished, provider.count("remove")], [[], 0]);
  });

  it("repeats a stop that fails, with pauses that grow", async () => {
    const finished = withFinish(Array.from({ length: 3 }, (_, index) => new Error(`no ${index}`)));
    const worker = await start();
    worker.update(failed());
    await clock.advance(0);
    assert.equal(finished.length, 1);
    await clock.advance(999);
    assert.equal(finished.length, 1);
    await clock.advance(1 + 2000 + 3999);
    assert.equal(finished.length, 3);
    await clock.advance(3_600_000);
    assert.equal(finished.length, 4);
    assert.deepEqual([...new Set(events)], ["ProviderStopFailed"]);
  });

  it("ends an apply that hangs, and one that waits to be repeated", async () => {
    const finished = withFinish();
    provider.failures.apply.push(new Error("no"));
    const worker = await start();
    worker.update(failed());
    await clock.advance(0);
    assert.deepEqual([finished.length, clock.sleepers], [1, 0]);
    const other = await start(pod({ metadata: { uid: "v" }, status: { phase: "Pending" } }));
    provider.apply = async (_pod, signal?: AbortSignal) => {
      await clock.sleep(1e9, signal);
    };
    other.update(
      pod({ spec: { containers: [{ name: "main", image: "x:2" }] }, metadata: { uid: "v" } }),
    );
    await clock.advance(0);
    other.update(pod({ metadata: { uid: "v" }, status: { phase: "Failed" } }));
    await clock.advance(0);
    assert.deepEqual(finished, ["u", "v"]);
  });

  it("stops it after a restart, as an earlier process may have applied it", async () => {
    const finished = withFinish();
    await start(pod({ status: { phase: "Failed" } }));
    assert.deepEqual([finished, provider.calls], [["u"], []]);
  });

  it("removes it after a restart only if something may run, where the provider cannot finish pods", async () => {
    const state = (states: object): NonNullable<Pod["status"]> => ({
      phase: "Failed",
      containerStatuses: [
        { name: "main", image: "x", imageID: "", ready: false, restartCount: 0, state: states },
      ],
    });
    await start(pod({ metadata: { uid: "a" }, status: state({ terminated: { exitCode: 1 } }) }));
    await start(pod({ metadata: { uid: "b" }, status: { phase: "Succeeded" } }));
    assert.equal(provider.calls.length, 0);
    await start(pod({ metadata: { uid: "c" }, status: state({ running: {} }) }));
    await start(pod({ metadata: { uid: "d" }, status: state({ waiting: {} }) }));
    assert.deepEqual(
      provider.calls.map(({ call, uid }) => `${call} ${uid}`),
      ["remove c", "remove d"],
    );
  });

  it("removes it at once when it is deleted while it is being stopped", async () => {
    let isAborted = false;
    const finish = async (_pod: Pod, signal: AbortSignal): Promise<void> => {
      await clock.sleep(1e9, signal).catch(() => {
        isAborted = true;
        throw new Error("aborted");
      });
    };
    Object.assign(provider, { finish });
    const worker = await start();
    worker.update(failed());
    await clock.advance(0);
    worker.update(pod({ metadata: deleting }));
    await clock.advance(0);
    assert.deepEqual([isAborted, provider.count("remove")], [true, 1]);
  });
});
