import { describe, it, mock } from "node:test";
import * as fc from "fast-check";
import { errorText } from "@kip/base";
import { seededRandom } from "@kip/cloud/simulated";
import { ManualClock } from "@kip/testing";
import { effects, targets } from "./testing/faults/gate.ts";
import type { Operation, OperationParts } from "./testing/faults/operations.ts";
import { mockWhatTakesTime } from "./testing/faults/what-takes-time.ts";
import { shorten, tell, type Story } from "./testing/faults/story.ts";

const { KIP_FAULT_OPERATIONS = "400", KIP_FAULT_SEED, KIP_FAULT_SEQUENCE } = process.env;

/** How long to shorten a failing story, milliseconds. */
const shorteningMs = 60_000;
const thisFile = "packages/kip/src/fault-sequences.model.test.ts";

/** Arbitrary operations of one kind. */
function kind<K extends Operation["kind"]>(
  weight: number,
  name: K,
  parts: { readonly [P in keyof OperationParts<K>]: fc.Arbitrary<OperationParts<K>[P]> },
): { readonly weight: number; readonly arbitrary: fc.Arbitrary<Operation> } {
  const all = { kind: fc.constant(name), ...parts };
  return { weight, arbitrary: fc.record(all) as unknown as fc.Arbitrary<Operation> }; // of this kind
}

const index = fc.nat({ max: 4 });
const replica = fc.nat({ max: 1 });

/** Arbitrary operations. */
const operations: fc.Arbitrary<Operation> = fc.oneof(
  kind(10, "create", {
    policy: fc.constantFrom("Never", "OnFailure", "Always"),
    cpu: fc.constantFrom("100m", "1500m"),
    graceSeconds: fc.constantFrom(2, 30),
    isDeaf: fc.boolean(),
    launchType: fc.constantFrom(undefined, undefined, "spot", "spot-or-on-demand"),
    needsSecret: fc.boolean(),
    deadlineSeconds: fc.constantFrom(undefined, undefined, 5, 60),
  }),
  kind(6, "delete", { index, graceSeconds: fc.constantFrom(undefined, 0, 1, 30) }),
  kind(5, "exit", { index, exitCode: fc.constantFrom(0, 1) }),
  kind(1, "failInApi", { index }),
  kind(16, "pass", { ms: fc.constantFrom(100, 1000, 3000, 10_000, 30_000, 100_000) }),
  kind(8, "kill", {
    replica,
    atCall: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 60 })),
    effect: fc.constantFrom("none", "done", "late"),
  }),
  kind(2, "stop", { replica }),
  kind(12, "fault", {
    target: fc.constantFrom(...targets),
    effect: fc.constantFrom(...effects),
    skip: fc.oneof(fc.constant(0), fc.nat({ max: 12 })),
    calls: fc.constantFrom(1, 1, 2, 8),
    ms: fc.constantFrom(500, 5000, 25_000),
  }),
  kind(2, "away", {
    target: fc.constantFrom(...targets),
    ms: fc.constantFrom(3000, 10_000, 120_000),
  }),
  kind(4, "watch", { what: fc.constantFrom("drop", "stall", "resume", "forget") }),
  kind(4, "cut", { index, isReachable: fc.boolean() }),
  kind(1, "reboot", { index }),
  kind(2, "endInstance", { index }),
  kind(2, "interrupt", { index, noticeMs: fc.constantFrom(5000, 30_000, 120_000) }),
  kind(2, "capacity", {
    launchType: fc.constantFrom(undefined, "on-demand", "spot"),
    isThere: fc.boolean(),
  }),
  kind(3, "quota", {
    launchType: fc.constantFrom("on-demand", "spot", "spot"),
    most: fc.constantFrom(undefined, 0, 1, 2),
  }),
  kind(1, "throttle", { calls: fc.constantFrom(1, 5) }),
  kind(1, "clock", { skewMs: fc.constantFrom(0, -3_600_000, -30_000, 30_000, 3_600_000) }),
  kind(1, "deleteCell", { index, isForced: fc.boolean() }),
  kind(1, "stripCell", { index }),
  kind(2, "hold", { index: fc.nat({ max: 8 }) }),
  kind(1, "release", {}),
  kind(2, "recreate", { index, graceSeconds: fc.constantFrom(0, 1, 30) }),
  kind(1, "deleteNode", {}),
  kind(2, "stopInstance", { index }),
  kind(4, "secret", { isThere: fc.boolean() }),
  kind(2, "standby", { count: fc.nat({ max: 2 }) }),
);

/** Number of operations in a story. */
const storyLength = 40;
const stories: fc.Arbitrary<Story> = fc.record(
  {
    world: fc.record({
      seed: fc.nat({ max: 2 ** 30 }),
      lagMs: fc.constantFrom(0, 3000),
      callMs: fc.constantFrom(0, 300, 3000),
      replicas: fc.constantFrom(1, 1, 2),
      isCloudAsked: fc.boolean(),
    }),
    operations: fc.array(operations, { minLength: storyLength, maxLength: storyLength }),
  },
  { noNullPrototype: true },
);

describe("kip with generated faults", () => {
  it("loses no pod, runs none twice, and leaves nothing that costs money", async (test) => {
    mockWhatTakesTime();
    if (KIP_FAULT_SEQUENCE !== undefined) {
      await tellSeeded(JSON.parse(KIP_FAULT_SEQUENCE) as Story);
      return;
    }
    const sums = new Map<string, number>();
    const add = (name: string, count: number): void =>
      void sums.set(name, (sums.get(name) ?? 0) + count);
    const property = fc.asyncProperty(stories, async (story) => {
      const figures = await tellSeeded(story);
      add("operations", story.operations.length);
      for (const [name, count] of Object.entries(figures)) add(name, count);
    });
    const run = await fc.check(property, {
      numRuns: Math.ceil(Number(KIP_FAULT_OPERATIONS) / storyLength),
      endOnFailure: true, // it is shortened below, by whole operations
      ...(KIP_FAULT_SEED !== undefined && { seed: Number(KIP_FAULT_SEED) }),
    });
    if (run.counterexample) throw await failure(run.seed, run.counterexample[0], run.errorInstance);
    test.diagnostic(`seed ${run.seed}: ${JSON.stringify(Object.fromEntries(sums))}`);
  });
});

/** The information that is needed to reproduce the failure. */
async function failure(seed: number, story: Story, cause: unknown): Promise<Error> {
  const shorter = await shorten(story, shorteningMs, tellSeeded);
  const [whole, short] = [story, shorter].map((each) => JSON.stringify(each));
  const again = `node --test ${thisFile}`;
  return new Error(
    [
      errorText(cause),
      `With seed ${seed}: KIP_FAULT_SEED=${seed} KIP_FAULT_OPERATIONS=${KIP_FAULT_OPERATIONS} ${again}`,
      `Alone: KIP_FAULT_SEQUENCE='${whole}' ${again}`,
      `In short: KIP_FAULT_SEQUENCE='${short}' ${again}`,
    ].join("\n"),
    { cause },
  );
}

/** Runs a story with the same random numbers each time. */
async function tellSeeded(story: Story): ReturnType<typeof tell> {
  const random = mock.method(Math, "random", seededRandom(story.world.seed));
  try {
    return await tell(story, new ManualClock());
  } finally {
    random.mock.restore();
  }
}
