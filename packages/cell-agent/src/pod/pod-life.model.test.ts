// Random pod lifecycles: ends, failures, restarts of the agent and deletion at any time.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { CodedError, silentLogger } from "@kip/base";
import { eventually, ManualClock, temporaryFolder } from "@kip/testing";
import * as fc from "fast-check";
import { container, desiredPod } from "../../test/desired-pod.ts";
import { fakeDependencies, FakeRuntime } from "../../test/fake-dependencies.ts";
import { agentDirectories } from "../storage/agent-directories.ts";
import { AgentWorker } from "./agent-worker.ts";

const names = ["init", "side", "a", "b"] as const;

/** What happens between two moments of the pod's life. */
const event = fc.oneof(
  fc.record({
    kind: fc.constant("exit" as const),
    name: fc.constantFrom(...names),
    code: fc.integer({ min: 0, max: 1 }),
  }),
  fc.record({ kind: fc.constant("time" as const), ms: fc.constantFrom(100, 1000, 15_000) }),
  fc.record({ kind: fc.constant("put" as const), image: fc.constantFrom("one", "two") }),
  fc.record({ kind: fc.constant("failCreate" as const) }),
  fc.record({ kind: fc.constant("failPulls" as const), isFailing: fc.boolean() }),
  fc.record({ kind: fc.constant("restartAgent" as const) }),
  fc.record({ kind: fc.constant("run" as const) }),
);
type PodEvent = typeof event extends fc.Arbitrary<infer T> ? T : never;

/** A runtime that detects requests that no order of steps may make. */
class StrictRuntime extends FakeRuntime {
  readonly violations: string[] = [];

  override async create(spec: Parameters<FakeRuntime["create"]>[0]): Promise<void> {
    const name = spec.labels?.["container"];
    if (this.states.has(spec.id)) this.violations.push(`Run ${spec.id} was made twice`);
    const isThere = [...this.states.values()].some(
      ({ labels, status }) => labels["container"] === name && status === "running",
    );
    if (isThere) this.violations.push(`Container ${name} was made while it ran`);
    await super.create(spec);
  }
}

class World implements AsyncDisposable {
  readonly #folder = temporaryFolder();
  readonly #clock = new ManualClock(Date.now()); // in the runtime's form of an end
  readonly #runtime = new StrictRuntime();
  readonly #missing = new Set<string>();
  #generation = 1;
  #worker = this.#create();

  async start(): Promise<void> {
    await this.#worker.begin(this.#dependencies());
    this.#put("one");
  }

  async do(next: PodEvent): Promise<void> {
    if (next.kind === "exit") this.#exit(next.name, next.code);
    else if (next.kind === "time") await this.#clock.advance(next.ms);
    else if (next.kind === "put") this.#put(next.image);
    else if (next.kind === "failCreate")
      this.#runtime.nextCreateError = new CodedError("TEST_FAILED", "no");
    else if (next.kind === "failPulls")
      this.#missing[next.isFailing ? "add" : "delete"]("registry.test");
    else if (next.kind === "run") await this.#run();
    else {
      await this.#worker[Symbol.asyncDispose]();
      this.#worker = this.#create();
      await this.#worker.begin(this.#dependencies());
    }
    await this.#check();
  }

  /** Whatever has happened, a deleted pod ends and leaves nothing behind. */
  async end(): Promise<void> {
    this.#worker.remove(30);
    await eventually(async () => {
      await this.#clock.advance(1000);
      return this.#report.isReleased === true;
    });
    assert.ok(this.#report.phase === "Succeeded" || this.#report.phase === "Failed");
    await eventually(() => this.#runtime.states.size === 0);
    assert.deepEqual(this.#runtime.violations, []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker[Symbol.asyncDispose]();
    this.#folder.remove();
  }

  get #report() {
    const report = this.#worker.report();
    assert.ok(report);
    return report;
  }

  #dependencies() {
    return fakeDependencies({ runtime: this.#runtime, missing: this.#missing });
  }

  #create(): AgentWorker {
    const { path } = this.#folder;
    return new AgentWorker({
      directories: agentDirectories(`${path}/state`, `${path}/run`),
      clock: this.#clock,
      logger: silentLogger,
      onChange: () => {},
    });
  }

  #put(image: string): void {
    const named = (name: string) => container(name, { image: `registry.test/${image}/${name}:1` });
    this.#worker.put(
      desiredPod({
        generation: this.#generation++,
        restartPolicy: "Always",
        initContainers: [{ ...named("side"), restartPolicy: "Always" }, container("init")],
        containers: [named("a"), named("b")],
      }),
    );
  }

  #exit(name: string, code: number): void {
    const isRunning = [...this.#runtime.states.values()].some(
      ({ labels, status }) => labels["container"] === name && status === "running",
    );
    if (isRunning) this.#runtime.exit(name, code);
  }

  /** After failures have stopped, the pod runs. */
  async #run(): Promise<void> {
    this.#missing.clear();
    await eventually(async () => {
      this.#exit("init", 0);
      await this.#clock.advance(15_000);
      return this.#report.containers.every(({ running }) => running !== undefined);
    });
  }

  /** Running containers in the report are running in the runtime, or will be without time passing. */
  async #check(): Promise<void> {
    await eventually(() => {
      const { initContainers, containers } = this.#report;
      const reported = [...initContainers, ...containers].filter(({ running }) => running);
      const running = [...this.#runtime.states.values()].filter(
        ({ status }) => status === "running",
      );
      return isDeepStrictEqual(
        new Set(reported.map(({ name }) => name)),
        new Set(running.map(({ labels }) => labels["container"])),
      );
    });
  }
}

describe("AgentWorker, with random ends, failures and restarts of the agent", () => {
  it("never runs a container twice, reports what runs, runs when nothing fails, and ends when it has to", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 12 }), async (events) => {
        await using world = new World();
        await world.start();
        for (const each of events) await world.do(each);
        await world.end();
      }),
      { numRuns: 20 },
    );
  });
});
