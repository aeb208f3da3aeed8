import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import * as fc from "fast-check";
import { Reconciler } from "./reconciler.ts";
import type { Plan, StepOf } from "./step.ts";

const lanes = ["a", "b", "c"] as const;
type Lane = (typeof lanes)[number];

/** Moves each lane from `actual` to `wanted`, one unit per step. */
interface State {
  readonly wanted: Readonly<Record<Lane, number>>;
  readonly actual: Readonly<Record<Lane, number>>;
  /** The inputs of the lanes' steps. */
  readonly input: Readonly<Record<Lane, number>>;
}
interface Change {
  readonly field: "wanted" | "actual" | "input";
  readonly lane: Lane;
  readonly value: number;
}
interface Args {
  readonly up: { readonly lane: Lane; readonly input: number };
  readonly down: { readonly lane: Lane; readonly input: number };
}
type Step = StepOf<Args>;

function plan({ wanted, actual, input }: State): Plan<Step> {
  const open = lanes.filter((lane) => wanted[lane] !== actual[lane]);
  return {
    steps: open.map((lane) => ({
      kind: wanted[lane] > actual[lane] ? "up" : "down",
      lane,
      input: input[lane],
    })),
  };
}

const reduce = (state: State, { field, lane, value }: Change): State => ({
  ...state,
  [field]: { ...state[field], [lane]: value },
});

/** What the test does between two turns of the event loop. */
const command = fc.oneof(
  fc.record({
    kind: fc.constant("want" as const),
    lane: fc.constantFrom(...lanes),
    value: fc.integer({ min: 0, max: 3 }),
  }),
  // A change by another writer, such as a watch.
  fc.record({
    kind: fc.constant("observe" as const),
    lane: fc.constantFrom(...lanes),
    value: fc.integer({ min: 0, max: 3 }),
  }),
  fc.record({
    kind: fc.constant("finish" as const),
    lane: fc.constantFrom(...lanes),
    fails: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("time" as const), ms: fc.integer({ min: 0, max: 3000 }) }),
  fc.record({ kind: fc.constant("retryNow" as const) }),
  fc.record({
    kind: fc.constant("tryNow" as const),
    step: fc.constantFrom("up" as const, "down" as const),
  }),
  fc.record({
    kind: fc.constant("input" as const),
    lane: fc.constantFrom(...lanes),
    value: fc.integer({ min: 0, max: 3 }),
  }),
);

interface Call {
  readonly step: Step;
  readonly signal: AbortSignal;
  readonly finish: (fails: boolean) => void;
}

/** Runs executors that end only on the test's command, and checks the invariants at each start. */
class World {
  readonly clock = new ManualClock();
  readonly running = new Map<Lane, Call>();
  /** Earliest time at which a failed step may run again unless its input changes. */
  readonly #notBefore = new Map<string, number>();
  /** When a step failed since its lane's last success. */
  readonly #failedAt = new Map<string, number[]>();
  readonly reconciler: Reconciler<Args, State, Change>;

  constructor() {
    const nothing = { a: 0, b: 0, c: 0 };
    const executor = (step: Step, { signal }: { readonly signal: AbortSignal }): Promise<Change> =>
      this.#execute(step, signal);
    this.reconciler = new Reconciler<Args, State, Change>({
      initial: { wanted: nothing, actual: nothing, input: nothing },
      plan,
      reduce,
      executors: { up: executor, down: executor },
      lane: ({ lane }) => lane,
      input: ({ input }) => input,
      backoff: { initialMs: 1000, maxMs: 8000, jitter: 0 },
      onFailure: ({ step, delayMs }) => {
        const now = this.clock.monotonic();
        this.#notBefore.set(key(step), now + delayMs);
        this.#failedAt.set(key(step), [...(this.#failedAt.get(key(step)) ?? []), now]);
        return undefined;
      },
      clock: this.clock,
      logger: silentLogger,
    });
  }

  async #execute(step: Step, signal: AbortSignal): Promise<Change> {
    const { lane } = step;
    assert.ok(!this.running.has(lane), `Lane ${lane} runs two steps at once`);
    this.#checkPause(step);
    const isFailure = await new Promise<boolean>((resolve) =>
      this.running.set(lane, { step, signal, finish: resolve }),
    );
    this.running.delete(lane);
    if (isFailure) throw new Error("A failure");
    this.#forgetPauses(lane);
    const value = this.reconciler.state.actual[lane] + (step.kind === "up" ? 1 : -1);
    return { field: "actual", lane, value };
  }

  #checkPause(step: Step): void {
    const now = this.clock.monotonic();
    const before = this.#notBefore.get(key(step)) ?? 0;
    assert.ok(now >= before, `${key(step)} ran before its back-off was over`);
    const last = this.#failedAt.get(key(step))?.at(-2) ?? -Infinity;
    assert.ok(now - last >= 1000, `${key(step)} ran three times within one back-off`);
  }

  #forgetTimes(lane: Lane): void {
    for (const kind of ["up", "down"] as const) this.#notBefore.delete(key({ kind, lane }));
  }

  #forgetPauses(lane: Lane): void {
    for (const kind of ["up", "down"] as const) this.#forgetPause({ kind, lane });
  }

  #forgetPause(step: Pick<Step, "kind" | "lane">): void {
    this.#notBefore.delete(key(step));
    this.#failedAt.delete(key(step));
  }

  async do(next: typeof command extends fc.Arbitrary<infer T> ? T : never): Promise<void> {
    if (next.kind === "want" || next.kind === "observe" || next.kind === "input") {
      const field = ({ want: "wanted", observe: "actual", input: "input" } as const)[next.kind];
      if (next.kind === "input") this.#forgetTimes(next.lane);
      this.reconciler.apply({ field, lane: next.lane, value: next.value });
    } else if (next.kind === "finish") this.running.get(next.lane)?.finish(next.fails);
    else if (next.kind === "time") await this.clock.advance(next.ms);
    else if (next.kind === "tryNow") {
      for (const lane of lanes) this.#forgetPause({ kind: next.step, lane });
      this.reconciler.tryNow(next.step);
    } else {
      for (const lane of lanes) this.#forgetPauses(lane);
      this.reconciler.retryNow();
    }
    await turns();
    this.#check();
  }

  /** Exactly the steps that are not planned are aborted. */
  #check(): void {
    const planned = new Set(plan(this.reconciler.state).steps.map(key));
    for (const { step, signal } of this.running.values()) {
      const isPlanned = planned.has(key(step));
      if (!isPlanned) assert.ok(signal.aborted, `${key(step)} goes on although it is not planned`);
    }
    const isIdle = planned.size === 0 && this.running.size === 0;
    assert.equal(this.reconciler.isSettled, isIdle);
  }

  /** From here on every step succeeds, and actual becomes wanted. */
  async converge(): Promise<void> {
    for (let round = 0; round < 100 && !this.reconciler.isSettled; round++) {
      for (const { finish } of this.running.values()) finish(false);
      await this.clock.advance(8000);
      await turns();
    }
    assert.deepEqual(this.reconciler.state.actual, this.reconciler.state.wanted);
  }
}

describe("Reconciler, with random changes, failures and times", () => {
  it("keeps its invariants and converges", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 60 }), async (commands) => {
        const world = new World();
        world.reconciler.start();
        await turns();
        for (const each of commands) await world.do(each);
        await world.converge();
        await world.reconciler.stop();
        assert.equal(world.running.size, 0);
      }),
      { numRuns: 200 },
    );
  });
});

function key({ kind, lane }: Pick<Step, "kind" | "lane">): string {
  return `${kind} ${lane}`;
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}
