import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CodedError, silentLogger } from "@kip/base";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import type { Pod, PodStatus } from "@kip/k8s-types";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import { ManualClock } from "@kip/testing";
import * as fc from "fast-check";
import { VirtualKubeletError } from "../errors.ts";
import { NodeMetrics } from "../metrics/node-metrics.ts";
import type { PodProvider, ResolvedPod } from "../pod-provider.ts";
import { resolvedWith } from "../testing/resolved-pod.ts";
import { noTracer } from "../tracing.ts";
import { PodWorker } from "./pod-worker.ts";
import { isFinished } from "./pod-facts.ts";

const outcomes = {
  ok: undefined,
  fails: new Error("A failure"),
  busy: new CodedError("X", "Cannot now", { retryAfterMs: 30_000 }),
  unknown: new VirtualKubeletError("VK_NOT_FOUND", "There is no such pod"),
  invalid: new VirtualKubeletError("VK_INVALID_POD", "Cannot run it"),
} as const;

/** What the test does between two turns of the event loop. */
const command = fc.oneof(
  fc.record({ kind: fc.constant("edit" as const), image: fc.nat({ max: 3 }) }),
  fc.record({ kind: fc.constant("delete" as const), graceSeconds: fc.constantFrom(0, 5, 30) }),
  fc.record({ kind: fc.constant("forceDelete" as const) }),
  fc.record({ kind: fc.constant("fail" as const) }), // another client sets the phase
  fc.record({
    kind: fc.constant("report" as const),
    what: fc.constantFrom("Running", "Succeeded", "deleted"),
  }),
  fc.record({ kind: fc.constant("wake" as const) }),
  // Twice as often as others.
  ...[1, 2].map(() =>
    fc.record({
      kind: fc.constant("end" as const),
      call: fc.nat({ max: 3 }),
      outcome: fc.constantFrom(...(Object.keys(outcomes) as (keyof typeof outcomes)[])),
    }),
  ),
  fc.record({ kind: fc.constant("time" as const), ms: fc.integer({ min: 0, max: 3000 }) }),
  fc.record({ kind: fc.constant("api" as const), isAway: fc.boolean() }),
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

interface Call {
  readonly name: "apply" | "finish" | "remove" | "removeUnknown";
  readonly graceSeconds: number;
  readonly end: (error: Error | undefined) => void;
}

/** A provider whose calls end only on the test's command, even if they are aborted. Checks which calls run at the same time. */
class Backend {
  readonly calls = new Set<Call>();
  content: ResolvedPod | undefined;
  isRunning = false;
  /** Whether it has reported the pod's end. An apply then does not start the pod again. */
  isOver = false;
  /** Whether it has reported that it deleted the pod. An apply under way then has no effect. */
  isDeleted = false;

  provider(canFinish: boolean): PodProvider {
    const provider = {
      apply: async (resolved: ResolvedPod) => {
        await this.#call("apply");
        if (this.isDeleted) return;
        this.content = resolved;
        this.isRunning = !this.isOver;
      },
      ...(canFinish && {
        finish: async () => {
          await this.#call("finish");
          this.isRunning = false;
        },
      }),
      remove: async (_pod: Pod, graceSeconds: number) => {
        await this.#call("remove", graceSeconds);
        this.drop();
      },
      removeUnknown: async () => {
        await this.#call("removeUnknown");
        this.drop();
      },
    };
    return provider as unknown as PodProvider; // the calls that a worker makes
  }

  drop(): void {
    this.content = undefined;
    this.isRunning = false;
  }

  async #call(name: Call["name"], graceSeconds = 0): Promise<void> {
    for (const other of this.calls) {
      const isFaster = other.name === "remove" && graceSeconds < other.graceSeconds;
      const isBeside = other.name === "remove" && name === "removeUnknown";
      assert.ok(isFaster || isBeside, `${name} began while ${other.name} was under way`);
    }
    const done = Promise.withResolvers<void>();
    const end = (error: Error | undefined): void => {
      this.calls.delete(call);
      if (error === outcomes.unknown) this.drop();
      if (error) done.reject(error);
      else done.resolve();
    };
    const call = { name, graceSeconds, end };
    this.calls.add(call);
    await done.promise;
  }
}

class World {
  readonly clock = new ManualClock();
  readonly backend = new Backend();
  readonly worker: PodWorker;
  /** The pod on the API server. Undefined once it is deleted. */
  stored: Pod | undefined = podWith({ spec: { containers: [{ name: "main", image: "x:0" }] } });
  ends = 0;
  #version = 1;
  #isApiAway = false;

  constructor(canFinish: boolean) {
    const client = this.#client();
    this.worker = new PodWorker(podWith(this.stored), {
      client,
      nodeClient: client,
      provider: this.backend.provider(canFinish),
      clock: this.clock,
      logger: silentLogger,
      resolve: async (pod) => resolvedWith(pod),
      recordEvent: () => {},
      backoff: { initialMs: 1000, maxMs: 8000, jitter: 0 },
      slowCallMs: 60_000,
      metrics: new NodeMetrics(),
      tracer: noTracer,
      onEnd: () => void this.ends++,
    });
  }

  async do(next: Command): Promise<void> {
    switch (next.kind) {
      case "edit":
        this.#store({ spec: { containers: [{ name: "main", image: `x:${next.image}` }] } });
        break;
      case "delete":
        this.#delete(next.graceSeconds);
        break;
      case "forceDelete":
        this.#remove();
        break;
      case "fail":
        if (this.stored && !isFinished(this.stored)) this.#store({ status: { phase: "Failed" } });
        break;
      case "report":
        this.#report(next.what);
        break;
      case "wake":
        if (this.ends === 0) this.worker.wake();
        break;
      case "end":
        [...this.backend.calls][next.call]?.end(outcomes[next.outcome]);
        break;
      case "time":
        await this.clock.advance(next.ms);
        break;
      case "api":
        this.#isApiAway = next.isAway;
        break;
    }
    await this.clock.advance(0);
  }

  /** From here on all calls succeed, and the API matches the provider. */
  async converge(): Promise<void> {
    this.#isApiAway = false;
    for (let round = 0; round < 30; round++) {
      for (const call of this.backend.calls) call.end(undefined);
      await this.clock.advance(60_000);
      if (this.stored) this.worker.repairStatus(); // like the sweep
    }
    assert.equal(this.backend.calls.size, 0);
    const { stored, backend } = this;
    const isDeletion = stored?.metadata.deletionTimestamp !== undefined || backend.isDeleted;
    assert.ok(!stored || !isDeletion, "the object of a deleted pod is still there");
    assert.equal(this.ends, stored ? 0 : 1);
    if (!stored) assert.deepEqual([backend.content, backend.isRunning], [undefined, false]);
    else if (isFinished(stored)) assert.equal(backend.isRunning, false);
    else assert.deepEqual(backend.content?.pod.spec, stored.spec);
    if (!stored) return;
    assert.deepEqual([this.worker.isBusy, this.clock.sleepers], [false, 0]);
  }

  #client(): ApiClient {
    const check = (): void => {
      if (this.#isApiAway) throw new K8sError("K8S_UNAVAILABLE", "away", { retryable: true });
      if (!this.stored) throw new K8sError("K8S_NOT_FOUND", "gone");
    };
    const client = {
      patch: async (_path: string, { status }: { readonly status?: PodStatus }) => {
        check();
        this.#store({ status: { ...this.stored?.status, ...status } });
        return this.stored;
      },
      delete: async () => {
        check();
        this.#remove();
      },
    };
    return client as unknown as ApiClient; // all that a worker uses of it
  }

  /** Stores a change on the API server, whose watch then reports it. */
  #store(change: PodParts): void {
    if (!this.stored) return;
    const metadata = { ...this.stored.metadata, ...change.metadata };
    const resourceVersion = String(++this.#version);
    const stored = podWith({
      ...this.stored,
      ...change,
      metadata: { ...metadata, resourceVersion },
    });
    this.stored = stored;
    queueMicrotask(() => this.worker.update(stored));
  }

  #delete(graceSeconds: number): void {
    const before = this.stored?.metadata.deletionGracePeriodSeconds ?? 30;
    const deletionGracePeriodSeconds = Math.min(before, graceSeconds);
    const deletionTimestamp = "2030-01-01T00:00:00Z";
    this.#store({ metadata: { deletionTimestamp, deletionGracePeriodSeconds } });
  }

  #remove(): void {
    if (!this.stored) return;
    this.stored = undefined;
    queueMicrotask(() => this.worker.objectDeleted());
  }

  /** Only reports what the provider has, and an end only once. */
  #report(what: string): void {
    const { backend } = this;
    if (!backend.isRunning) return;
    const isDeleted = what === "deleted";
    if (what !== "Running") {
      backend.isRunning = false;
      backend.isOver = true;
    }
    if (isDeleted) {
      backend.drop();
      backend.isDeleted = true;
    }
    const status = { phase: what === "Running" ? "Running" : "Succeeded" };
    this.worker.reportStatus({ uid: this.worker.uid, status, isDeleted });
  }
}

describe("PodWorker, with random changes, failures and times", () => {
  it("runs one step at a time, and ends with what the API wants", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.array(command, { maxLength: 40 }),
        async (canFinish, commands) => {
          const world = new World(canFinish);
          if (world.stored) world.worker.update(world.stored);
          await world.clock.advance(0);
          for (const each of commands) await world.do(each);
          await world.converge();
          world.worker.stop();
        },
      ),
      { numRuns: 200 },
    );
  });
});
