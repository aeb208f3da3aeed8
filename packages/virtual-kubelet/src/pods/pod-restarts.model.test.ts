import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import * as fc from "fast-check";
import { VirtualKubeletError } from "../errors.ts";
import { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider, ResolvedPod } from "../pod-provider.ts";
import { podStatus, type ContainerRun } from "../status/pod-status.ts";
import { resolvedWith } from "../testing/resolved-pod.ts";
import { noTracer } from "../tracing.ts";
import { hasBegun, isFinished } from "./pod-facts.ts";
import { PodWorker } from "./pod-worker.ts";

/** The fields of each kind of command. */
interface Commands {
  readonly secret: { readonly isThere: boolean };
  readonly admission: { readonly isOpen: boolean };
  readonly api: { readonly isAway: boolean; readonly slowMs: number };
  readonly restart: object;
  readonly edit: object;
  readonly delete: object;
  /** The container starts. */
  readonly start: object;
  readonly exit: { readonly exitCode: number };
  readonly applyFails: { readonly calls: number };
  readonly time: { readonly ms: number };
  /** The time of day is set forward or back. */
  readonly clock: { readonly ms: number };
}
type Command = {
  readonly [K in keyof Commands]: { readonly kind: K } & Commands[K];
}[keyof Commands];

/** Arbitrary commands of one kind. */
function kind<K extends keyof Commands>(
  weight: number,
  name: K,
  parts: { readonly [P in keyof Commands[K]]: fc.Arbitrary<Commands[K][P]> },
): { readonly weight: number; readonly arbitrary: fc.Arbitrary<Command> } {
  const all = { kind: fc.constant(name), ...parts };
  return { weight, arbitrary: fc.record(all) as unknown as fc.Arbitrary<Command> }; // of this kind
}

/** What the test does between two turns of the event loop. */
const command = fc.oneof(
  kind(3, "secret", { isThere: fc.boolean() }),
  kind(2, "admission", { isOpen: fc.boolean() }),
  kind(3, "api", { isAway: fc.boolean(), slowMs: fc.constantFrom(0, 0, 500, 5000) }),
  kind(4, "restart", {}),
  kind(2, "edit", {}),
  kind(1, "delete", {}),
  kind(3, "start", {}),
  kind(1, "exit", { exitCode: fc.constantFrom(0, 1) }),
  kind(1, "applyFails", { calls: fc.constantFrom(1, 3) }),
  kind(6, "time", { ms: fc.constantFrom(100, 1000, 10_000, 61_000) }),
  kind(1, "clock", { ms: fc.constantFrom(-3_600_000, -5000, 5000, 3_600_000) }),
);

/** A pod that needs a Secret, its API server, a provider that outlives the process, and one process after the other. */
class World {
  readonly clock = new ManualClock();
  /** Violations of a kubelet's rules. */
  readonly mistakes: string[] = [];
  /** The pod on the API server. */
  stored: Pod = podWith({
    metadata: { resourceVersion: "1" },
    spec: { containers: [{ name: "main", image: "x:0" }], activeDeadlineSeconds: 90 },
    status: { phase: "Pending" },
  });
  worker: PodWorker;
  #hasSecret = false;
  #admits = true;
  #isAway = false;
  #slowMs = 0;
  #applyFailures = 0;
  /** What the provider has of the pod. */
  #content: Pod | undefined;
  #run: ContainerRun | undefined;
  /** Whether the present process has refused the pod or ended it by its deadline. */
  #isOver = false;
  #isClockSet = false;
  #version = 1;
  #process = 0;

  constructor() {
    this.worker = this.#startProcess();
  }

  async do(next: Command): Promise<void> {
    switch (next.kind) {
      case "secret":
        this.#hasSecret = next.isThere;
        this.worker.wake();
        break;
      case "admission":
        this.#admits = next.isOpen;
        break;
      case "api":
        this.#isAway = next.isAway;
        this.#slowMs = next.slowMs;
        break;
      case "restart":
        this.worker.stop();
        this.worker = this.#startProcess();
        break;
      case "edit":
        this.#store({ metadata: { labels: { edit: String(this.#version) } } });
        break;
      case "delete":
        this.#store({ metadata: { deletionTimestamp: "2030-01-01T00:00:00Z" } });
        break;
      case "start":
        if (this.#content && !isFinished(this.stored))
          this.#run ??= { startedAtMs: this.clock.now() };
        this.#report();
        break;
      case "exit":
        this.#exit(next.exitCode);
        break;
      case "applyFails":
        this.#applyFailures = next.calls;
        break;
      case "time":
        await this.clock.advance(next.ms);
        break;
      case "clock":
        this.#isClockSet = true;
        this.clock.step(next.ms);
        break;
    }
    await this.clock.advance(0);
  }

  /** From here on all calls succeed, and the pod is applied or ends by its deadline. */
  async converge(): Promise<void> {
    this.#isAway = false;
    this.#slowMs = this.#applyFailures = 0;
    await this.clock.advance(240_000);
    if (this.stored.metadata.deletionTimestamp !== undefined || this.#content) return;
    const mayWait = !this.#hasSecret && this.#isClockSet;
    assert.ok(isFinished(this.stored) || mayWait, "it neither runs nor ends");
    assert.ok(this.stored.status?.startTime !== undefined, "it has no start time");
  }

  #startProcess(): PodWorker {
    const id = ++this.#process;
    const client = this.#client();
    // If the API does not have the end, the next process decides again.
    this.#isOver = false;
    const worker = new PodWorker(this.stored, {
      client,
      nodeClient: client,
      provider: this.#provider(() => id === this.#process),
      clock: this.clock,
      logger: silentLogger,
      resolve: async (pod) => {
        if (this.#hasSecret) return resolvedWith(pod);
        throw new VirtualKubeletError("VK_UNRESOLVED", 'secret "db" not found');
      },
      recordEvent: (_pod, { reason }) => {
        if (reason === "Refused" || reason === "DeadlineExceeded") this.#isOver = true;
      },
      backoff: { initialMs: 1000, maxMs: 8000, jitter: 0 },
      slowCallMs: 60_000,
      metrics: new NodeMetrics(),
      tracer: noTracer,
      onEnd: () => {},
    });
    worker.update(this.stored);
    return worker;
  }

  /** Calls of a process that has ended have no effect. */
  #provider(isAlive: () => boolean): PodProvider {
    const provider = {
      admit: async (pod: Pod) => {
        if (!isAlive()) return;
        if (hasBegun(pod)) this.mistakes.push("it was admitted although it had begun");
        if (this.#admits) return;
        throw new VirtualKubeletError("VK_INVALID_POD", "no", { reason: "Refused" });
      },
      presence: async () => (this.#content ? "present" : "absent"),
      resume: async () => {},
      apply: async ({ pod }: ResolvedPod) => {
        if (!isAlive()) return;
        if (this.#isOver || isFinished(this.stored)) this.mistakes.push("it started after its end");
        if (this.#applyFailures-- > 0) throw new Error("A failure");
        this.#content = pod;
        this.#report();
      },
      finish: async () => {
        if (isAlive()) this.#run = undefined;
      },
      remove: async () => {
        if (isAlive()) this.#content = this.#run = undefined;
      },
    };
    return provider as unknown as PodProvider; // the calls that a worker makes
  }

  #exit(exitCode: number): void {
    const ended = { exitCode, finishedAtMs: this.clock.now() };
    if (this.#run && !this.#run.ended) this.#run = { ...this.#run, ended };
    this.#report();
  }

  #report(): void {
    if (!this.#content) return;
    const runs = new Map(this.#run ? [["main", this.#run]] : []);
    const status = podStatus(this.#content, { runs, nowMs: this.clock.now() });
    this.worker.reportStatus({ uid: this.worker.uid, status });
  }

  #client(): ApiClient {
    const client = {
      patch: async (_path: string, { metadata, status = {} }: Pick<Pod, "metadata" | "status">) => {
        if (this.#slowMs > 0) await this.clock.sleep(this.#slowMs);
        this.#checkAway();
        if (metadata.resourceVersion !== this.stored.metadata.resourceVersion)
          throw new K8sError("K8S_CONFLICT", "The pod has changed", { httpStatus: 409 });
        return this.#store({ status: this.#patched(status) });
      },
      get: async () => {
        this.#checkAway();
        return this.stored;
      },
      delete: async () => {},
    };
    return client as unknown as ApiClient; // all that a worker uses of it
  }

  #checkAway(): void {
    if (this.#isAway) throw new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
  }

  /** The status after a strategic merge patch. */
  #patched(patch: PodStatus): PodStatus {
    const before = this.stored.status ?? {};
    const changes = Object.entries(patch).filter(([, value]) => value !== null);
    const removed = Object.entries(patch).flatMap(([key, value]) => (value === null ? [key] : []));
    const kept = Object.entries(before).filter(([key]) => !removed.includes(key));
    const changed = new Map((patch.conditions ?? []).map((each) => [each.type, each]));
    const conditions = [
      ...(before.conditions ?? []).filter(({ type }) => !changed.has(type)),
      ...changed.values(),
    ];
    const next: PodStatus = { ...Object.fromEntries([...kept, ...changes]), conditions };
    this.#check(before, next);
    return next;
  }

  #check(before: PodStatus, next: PodStatus): void {
    const broken = {
      "its start time changed": (before.startTime ?? next.startTime) !== next.startTime,
      "its end changed": isFinished({ status: before }) && before.phase !== next.phase,
      "it is pending again": before.phase === "Running" && next.phase === "Pending",
      // A refused pod has none, as in a kubelet.
      "it lost its container's status":
        before.containerStatuses && !next.containerStatuses && next.reason !== "Refused",
      "a condition got another time without a transition": before.conditions?.some((known) => {
        const condition = next.conditions?.find(({ type }) => type === known.type);
        const isSame = condition?.status === known.status;
        return isSame && condition?.lastTransitionTime !== known.lastTransitionTime;
      }),
    };
    for (const [what, isBroken] of Object.entries(broken))
      if (isBroken === true) this.mistakes.push(what);
  }

  #store(change: PodParts): Pod {
    const resourceVersion = String(++this.#version);
    const metadata = { ...this.stored.metadata, ...change.metadata, resourceVersion };
    const stored = podWith({ ...this.stored, ...change, metadata });
    this.stored = stored;
    queueMicrotask(() => this.worker.update(stored));
    return stored;
  }
}

describe("PodWorker, with random restarts of the process", () => {
  it("keeps a kubelet's rules about admission, deadlines and statuses", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 40 }), async (commands) => {
        const world = new World();
        await world.clock.advance(0);
        for (const each of commands) {
          await world.do(each);
          assert.deepEqual(world.mistakes, []);
        }
        await world.converge();
        assert.deepEqual(world.mistakes, []);
        world.worker.stop();
      }),
      { numRuns: 100 },
    );
  });
});
