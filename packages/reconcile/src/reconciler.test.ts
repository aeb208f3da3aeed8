import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CodedError, silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { Reconciler, type ReconcilerOptions, type StepFailure } from "./reconciler.ts";
import type { Executors, Moment, NoArguments, Plan, StepOf } from "./step.ts";

interface Args {
  readonly fetch: { readonly url: string };
  readonly save: NoArguments;
}
interface State {
  readonly url?: string | undefined;
  readonly body?: string | undefined;
  readonly isSaved: boolean;
}
type Change = Partial<State>;
type Step = StepOf<Args>;

const backoff = { initialMs: 1000, maxMs: 60_000, jitter: 0 };

function plan({ url, body, isSaved }: State): Plan<Step> {
  if (url === undefined) return { steps: [] };
  if (body === undefined) return { steps: [{ kind: "fetch", url }] };
  return { steps: isSaved ? [] : [{ kind: "save" }] };
}

const working: Executors<Args, State, Change> = {
  fetch: async ({ url }) => ({ body: `body of ${url}` }),
  save: async () => ({ isSaved: true }),
};

function create(
  executors: Partial<Executors<Args, State, Change>> = {},
  options: Partial<ReconcilerOptions<Args, State, Change>> = {},
): { readonly clock: ManualClock; readonly reconciler: Reconciler<Args, State, Change> } {
  const clock = new ManualClock();
  const reconciler = new Reconciler<Args, State, Change>({
    initial: { isSaved: false },
    plan,
    reduce: (state, change) => ({ ...state, ...change }),
    executors: { ...working, ...executors },
    backoff,
    clock,
    logger: silentLogger,
    ...options,
  });
  return { clock, reconciler };
}

describe("Reconciler", () => {
  it("takes steps until the plan is empty, then settles", async () => {
    const { reconciler } = create();
    reconciler.apply({ url: "a" });
    await reconciler.settled;
    assert.deepEqual(reconciler.state, { url: "a", body: "body of a", isSaved: true });
  });

  it("names what runs, what waits for its back-off, and for how long", async () => {
    const fetching = Promise.withResolvers<Change>();
    const { reconciler, clock } = create({
      fetch: () => fetching.promise,
      save: async () => {
        throw new Error("the disk is full");
      },
    });
    assert.deepEqual(reconciler.inspect(), { steps: [], wakeInMs: undefined });
    reconciler.apply({ url: "a" });
    const of = (kind: string) => ({ kind, lane: "", failures: 0 });
    assert.deepEqual(reconciler.inspect().steps, [{ ...of("fetch"), status: "queued" }]);
    await new Promise(setImmediate);
    assert.deepEqual(reconciler.inspect().steps, [{ ...of("fetch"), status: "running" }]);
    fetching.resolve({ body: "b" });
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    await clock.advance(400);
    assert.deepEqual(reconciler.inspect(), {
      steps: [{ ...of("save"), failures: 1, status: "paused", inMs: 600 }],
      wakeInMs: 600,
    });
    await reconciler.stop();
  });

  it("stays settled when a change changes nothing", async () => {
    const { reconciler } = create({}, { reduce: (state) => state });
    reconciler.start();
    await reconciler.settled;
    reconciler.apply({ url: "a" });
    assert.equal(reconciler.isSettled, true);
  });

  it("makes a new promise when there is work again", async () => {
    const { reconciler } = create();
    reconciler.apply({ url: "a" });
    await reconciler.settled;
    reconciler.apply({ isSaved: false });
    assert.equal(reconciler.isSettled, false);
    await reconciler.settled;
    assert.equal(reconciler.state.isSaved, true);
  });

  it("reports all changes of one turn at once", async () => {
    const seen: State[] = [];
    const { reconciler } = create({}, { onChange: (state) => void seen.push(state) });
    reconciler.apply({ url: "a" });
    reconciler.apply({ body: "b" });
    await reconciler.settled;
    assert.deepEqual(seen, [
      { url: "a", body: "b", isSaved: false },
      { url: "a", body: "b", isSaved: true },
    ]);
  });

  it("repeats a failed step after the back-off, which changes of the state do not shorten", async () => {
    let calls = 0;
    const failures: StepFailure<Step>[] = [];
    const fetch = async (): Promise<Change> => {
      calls++;
      if (calls < 3) throw new Error(`Failure ${calls}`);
      return { body: "at last" };
    };
    const { clock, reconciler } = create(
      { fetch },
      {
        onFailure: (failure) => {
          failures.push(failure);
          return {}; // a change, such as a status with the failure
        },
      },
    );
    reconciler.apply({ url: "a" });
    await turns();
    for (let write = 0; write < 100; write++) {
      reconciler.apply({ url: `a${write}` });
      await turns(1);
    }
    assert.equal(calls, 1);
    assert.equal(reconciler.isFailing, true);
    await clock.advance(1000);
    assert.equal(calls, 2);
    await clock.advance(1999);
    assert.equal(calls, 2);
    await clock.advance(1);
    await reconciler.settled;
    assert.equal(calls, 3);
    assert.deepEqual(
      failures.map(({ failures: count, delayMs }) => [count, delayMs]),
      [
        [1, 1000],
        [2, 2000],
      ],
    );
    assert.equal(reconciler.isFailing, false);
  });

  it("ends a back-off at once when its input changes first, but not each time it does", async () => {
    const calls: number[] = [];
    const fetch = async (): Promise<Change> => {
      calls.push(clock.monotonic());
      throw new Error("Failure");
    };
    const { clock, reconciler } = create(
      { fetch },
      { input: (step) => step.kind === "fetch" && step.url },
    );
    reconciler.apply({ url: "a" });
    await clock.advance(0);
    reconciler.apply({ isSaved: false }); // not an input of the step
    await clock.advance(1000 + 500);
    assert.deepEqual(calls, [0, 1000]);
    reconciler.apply({ url: "b" });
    await clock.advance(0);
    assert.deepEqual(calls, [0, 1000, 1500]);
    for (let change = 0; change < 100; change++) {
      reconciler.apply({ url: `b${change}` });
      await clock.advance(10);
    }
    assert.deepEqual(calls, [0, 1000, 1500, 2500]);
    await clock.advance(1000 + 2000);
    assert.deepEqual(calls, [0, 1000, 1500, 2500, 3500, 5500], "the failures count from 1 again");
    await reconciler.stop();
  });

  it("keeps a back-off that a server asked for, however the input changes", async () => {
    let calls = 0;
    const fetch = async (): Promise<Change> => {
      calls++;
      throw new CodedError("BUSY", "Cannot fetch now", { retryAfterMs: 30_000 });
    };
    const { clock, reconciler } = create(
      { fetch },
      { input: (step) => step.kind === "fetch" && step.url },
    );
    reconciler.apply({ url: "a" });
    await clock.advance(0);
    reconciler.apply({ url: "b" });
    await clock.advance(29_999);
    assert.equal(calls, 1);
    await clock.advance(1);
    assert.equal(calls, 2);
    await reconciler.stop();
  });

  it("keeps the back-off of one kind of step while another kind fails", async () => {
    const calls: string[] = [];
    const fail =
      (name: string): (() => Promise<Change>) =>
      async () => {
        calls.push(name);
        throw new Error(name);
      };
    const { clock, reconciler } = create({ fetch: fail("fetch"), save: fail("save") });
    reconciler.apply({ url: "a" });
    await clock.advance(0);
    for (let change = 0; change < 20; change++) {
      reconciler.apply({ body: change % 2 === 0 ? "b" : undefined });
      await clock.advance(10);
    }
    assert.deepEqual(calls, ["fetch", "save"]);
    await reconciler.stop();
  });

  it("is not failing once the failed step is no longer planned", async () => {
    const { reconciler } = create({ fetch: () => Promise.reject(new Error("Failure")) });
    reconciler.apply({ url: "a" });
    await turns();
    assert.equal(reconciler.isFailing, true);
    reconciler.apply({ url: undefined });
    await turns();
    assert.deepEqual([reconciler.isFailing, reconciler.isSettled], [false, true]);
  });

  it("repeats a step after a back-off if its change cannot be reduced, or onFailure() throws", async () => {
    let defects = 0;
    const { clock, reconciler } = create(
      {},
      {
        reduce: (state, change) => {
          if (change.body !== undefined && defects++ === 0) throw new TypeError("A defect");
          return { ...state, ...change };
        },
        onFailure: () => {
          throw new TypeError("Another defect");
        },
      },
    );
    reconciler.apply({ url: "a" });
    await turns();
    assert.equal(reconciler.state.body, undefined);
    await clock.advance(1000);
    assert.equal(reconciler.state.isSaved, true);
  });

  it("backs off a step that succeeds without any effect", async () => {
    let calls = 0;
    const { clock, reconciler } = create({ fetch: async () => (calls++, undefined) });
    reconciler.apply({ url: "a" });
    await turns(50);
    assert.equal(calls, 1);
    await clock.advance(1000);
    assert.equal(calls, 2);
    await reconciler.stop();
  });

  it("keeps the back-off of a step that took itself from the plan before it failed", async () => {
    let calls = 0;
    const fetch: (typeof working)["fetch"] = async (_step, { change }) => {
      calls++;
      change({ body: "perhaps", isSaved: false });
      throw new Error("The answer was lost");
    };
    const save = async (): Promise<Change> => ({ body: undefined }); // the lookup finds nothing
    const { clock, reconciler } = create(
      { fetch, save },
      { isProgress: ({ kind }) => kind === "fetch" },
    );
    reconciler.apply({ url: "a" });
    await turns(50);
    assert.equal(calls, 1);
    await clock.advance(1000);
    assert.equal(calls, 2);
    await reconciler.stop();
  });

  it("tryNow() ends the back-off of a step that is planned again later, too", async () => {
    let calls = 0;
    const fetch: (typeof working)["fetch"] = async (_step, { change }) => {
      if (calls++ > 0) return { body: "b", isSaved: true };
      change({ body: "perhaps" });
      throw new Error("The answer was lost");
    };
    const looked = Promise.withResolvers<Change>();
    const { reconciler } = create(
      { fetch, save: () => looked.promise },
      { isProgress: ({ kind }) => kind === "fetch" },
    );
    reconciler.apply({ url: "a" });
    await turns();
    assert.equal(reconciler.tryNow("fetch"), false);
    looked.resolve({ body: undefined });
    await reconciler.settled;
    assert.equal(calls, 2);
  });

  it("is not settled while its plan waits for a change", async () => {
    const { reconciler } = create(
      {},
      { plan: (state) => ({ ...plan(state), isWaiting: !state.isSaved }) },
    );
    reconciler.start();
    await turns();
    assert.equal(reconciler.isSettled, false);
    reconciler.apply({ isSaved: true });
    await reconciler.settled;
  });

  it("gives each change the time at which it is applied, on both clocks", async () => {
    const times: Moment[] = [];
    const { clock, reconciler } = create(
      {},
      { reduce: (state, change, now) => (times.push(now), { ...state, ...change }) },
    );
    const before = { monotonicMs: clock.monotonic(), wallMs: clock.now() };
    reconciler.apply({});
    await clock.advance(5);
    reconciler.apply({});
    const after = { monotonicMs: before.monotonicMs + 5, wallMs: before.wallMs + 5 };
    assert.deepEqual(times, [before, after]);
    await reconciler.stop();
  });

  it("retryNow() ends the back-off", async () => {
    let calls = 0;
    const fetch = async (): Promise<Change> => {
      if (calls++ === 0) throw new Error("Once");
      return { body: "b" };
    };
    const { reconciler } = create({ fetch });
    reconciler.apply({ url: "a" });
    await turns();
    reconciler.retryNow();
    await reconciler.settled;
    assert.equal(calls, 2);
  });

  it("tryNow() ends the back-off of one kind of step, says whether it did, and forgets no failure", async () => {
    let calls = 0;
    const fetch = async (): Promise<Change> => {
      if (calls++ < 4) throw new Error("Four times");
      return { body: "b" };
    };
    const { reconciler, clock } = create({ fetch });
    const trial = async (kind: "fetch" | "save"): Promise<readonly [boolean, number]> => {
      const hasWaited = reconciler.tryNow(kind);
      await turns();
      return [hasWaited, calls];
    };
    reconciler.apply({ url: "a" });
    await turns();
    await clock.advance(1000);
    assert.deepEqual(await trial("save"), [false, 2]);
    assert.deepEqual(await trial("fetch"), [true, 3]);
    const [{ failures, inMs } = {}] = reconciler.inspect().steps;
    assert.deepEqual([failures, inMs], [3, 4000]);
    assert.deepEqual(await trial("fetch"), [true, 4]);
    assert.deepEqual(await trial("fetch"), [true, 5]);
    await reconciler.settled;
    assert.deepEqual(await trial("fetch"), [false, 5]);
  });

  it("aborts a step that is no longer planned, and waits for its end before the next", async () => {
    const log: string[] = [];
    const end = Promise.withResolvers<void>();
    const fetch: (typeof working)["fetch"] = async (_step, { signal }) => {
      signal.addEventListener("abort", () => log.push("aborted"));
      await end.promise;
      log.push("ended");
      throw new Error("Aborted");
    };
    const save = async (): Promise<Change> => {
      log.push("saved");
      return { isSaved: true };
    };
    const { reconciler } = create({ fetch, save });
    reconciler.apply({ url: "a" });
    await turns();
    reconciler.apply({ body: "from elsewhere" });
    await turns();
    assert.deepEqual(log, ["aborted"]);
    end.resolve();
    await reconciler.settled;
    assert.deepEqual(log, ["aborted", "ended", "saved"]);
  });

  it("tells a running step its new arguments", async () => {
    const urls: string[] = [];
    const fetch: (typeof working)["fetch"] = async ({ url }, { onReplanned }) => {
      urls.push(url);
      const next = Promise.withResolvers<string>();
      onReplanned((step) => next.resolve(step.url));
      urls.push(await next.promise);
      return { body: "b" };
    };
    const { reconciler } = create({ fetch });
    reconciler.apply({ url: "a" });
    await turns();
    reconciler.apply({ url: "b" });
    await reconciler.settled;
    assert.deepEqual(urls, ["a", "b"]);
  });

  it("plans again at the time that the plan names", async () => {
    const { clock, reconciler } = create(
      {},
      {
        plan: ({ body }, nowMs) => {
          if (body !== undefined) return { steps: [] };
          return nowMs < 5000
            ? { steps: [], wakeAtMs: 5000 }
            : { steps: [{ kind: "fetch", url: "a" }] };
        },
      },
    );
    reconciler.start();
    await clock.advance(4999);
    assert.equal(reconciler.state.body, undefined);
    await clock.advance(1);
    assert.equal(reconciler.state.body, "body of a");
  });

  it("goes on after a defect in the plan function", async () => {
    let isDefect = true;
    const { reconciler } = create(
      {},
      {
        plan: (state) => {
          if (isDefect) throw new TypeError("A defect");
          return plan(state);
        },
      },
    );
    reconciler.apply({ url: "a" });
    await turns();
    isDefect = false;
    reconciler.apply({});
    await reconciler.settled;
    assert.equal(reconciler.state.isSaved, true);
  });

  it("stop() aborts what runs, waits for it, and drops its change", async () => {
    const fetch: (typeof working)["fetch"] = async (_step, { signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { body: "too late" };
    };
    const { reconciler } = create({ fetch });
    reconciler.apply({ url: "a" });
    await turns();
    await reconciler.stop();
    reconciler.apply({ url: "b" });
    assert.deepEqual(reconciler.state, { url: "a", isSaved: false });
  });
});

async function turns(count = 6): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}
