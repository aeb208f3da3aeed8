import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { Cell } from "../state/cell.ts";
import { planCell, type CellDecision } from "./cell-plan.ts";
import type { CellObservation } from "./observe-cell.ts";

type Phase = "Running" | "Succeeded" | "Failed";

/** The outside world, which survives a kill of kip. */
interface World {
  cell: boolean;
  claimed: boolean;
  /** The pod's end in the Cell's status. */
  cellEnd: Phase | undefined;
  instances: number;
  isRunning: boolean;
  podStarts: number;
  isPodRunning: boolean;
  /** How the pod ended on its machine. Only the machine knows this. */
  result: Phase | undefined;
  /** Whether the seccomp profile that a container is waiting for exists. */
  isProfileThere: boolean;
  /** The pod's phase in the API, and whether the API currently accepts a status. */
  apiPhase: Phase;
  isStatusTaken: boolean;
}

/** What kip remembers, which a kill erases. */
interface Memory {
  instance: CellObservation["instance"];
  isRefused: boolean;
  isAgentConnected: boolean;
  isDispatched: boolean;
  areProfilesDue: boolean;
  drainSent: number | undefined;
  areLogsSaved: boolean;
  end: Phase | undefined;
  isEndRecorded: boolean;
  isEndInApi: boolean;
}

const cell = { metadata: { uid: "u" }, spec: {} } as unknown as Cell; // the plan only checks that it exists
const forgetful = (): Memory => ({
  instance: "unknown",
  isRefused: false,
  isAgentConnected: false,
  isDispatched: false,
  areProfilesDue: false,
  drainSent: undefined,
  areLogsSaved: false,
  end: undefined,
  isEndRecorded: false,
  isEndInApi: false,
});
const nothing = (): World => ({
  cell: false,
  claimed: false,
  cellEnd: undefined,
  instances: 0,
  isRunning: false,
  podStarts: 0,
  isPodRunning: false,
  result: undefined,
  isProfileThere: false,
  apiPhase: "Running",
  isStatusTaken: true,
});

/** What a new process finds in the API before its first step. */
function restarted(world: World): Memory {
  const isOver = world.apiPhase !== "Running";
  return {
    ...forgetful(),
    end: (world.cell ? world.cellEnd : undefined) ?? (isOver ? world.apiPhase : undefined),
    isEndRecorded: world.cell && world.cellEnd !== undefined,
    isEndInApi: isOver,
  };
}

function observe(
  world: World,
  memory: Memory,
  wanted: "run" | "remove",
  policy: "Never" | "OnFailure" = "OnFailure",
): CellObservation {
  const { end, ...rest } = memory;
  return {
    hasContent: true,
    ...rest,
    wanted: wanted === "run" ? { kind: "run" } : { kind: "remove", graceSeconds: 1 },
    cell: world.cell ? cell : undefined,
    isPodFinished: end !== undefined,
    isEndRecorded: end === undefined || memory.isEndRecorded,
    isEndInApi: end === undefined || memory.isEndInApi,
    isLossFinal: policy === "Never" && world.claimed,
    graceSeconds: 30,
    isStopHeld: false,
    isCellDeleted: false,
    isRefused: memory.isRefused,
    wasClaimed: world.claimed,
    isDrained: !world.isPodRunning && (memory.drainSent !== undefined || end !== undefined),
    isDrainOverdue: false,
    isUnhealthy: false,
  };
}

/** Applies a step to the world. Kip may miss the result. */
function act(step: CellDecision, world: World, memory: Memory, isAnswerLost: boolean): void {
  const before = { ...memory };
  const effects: { readonly [K in CellDecision["kind"]]: () => void } = {
    createCell: () => {
      world.cell = true;
      world.cellEnd = undefined;
    },
    observeInstance: () => {
      const none = world.claimed ? "gone" : "none";
      memory.instance = world.instances === 0 ? none : world.isRunning ? "running" : "pending";
    },
    launch: () => {
      // Idempotent by token: a second launch finds the first instance.
      world.instances = Math.max(1, world.instances);
      memory.instance = "pending";
    },
    awaitRunning: () => {
      world.isRunning = true;
      memory.instance = "running";
    },
    connect: () => {
      memory.isAgentConnected = true;
    },
    dispatch: () => {
      assert.ok(world.instances === 1 && world.isRunning, "a pod is given to a machine that runs");
      world.claimed = true;
      memory.isDispatched = true;
      memory.areProfilesDue = !world.isProfileThere;
      if (world.result) return;
      if (!world.isPodRunning) world.podStarts++;
      world.isPodRunning = true;
    },
    lookForProfiles: () => {
      world.isProfileThere = true;
      memory.isDispatched = false;
    },
    drain: () => {
      world.isPodRunning = false;
      memory.drainSent = 1;
    },
    endPod: () => {
      memory.end = "Failed";
    },
    recordEnd: () => {
      world.cellEnd = memory.end;
      memory.isEndRecorded = true;
    },
    saveLogs: () => {
      memory.areLogsSaved = true;
    },
    terminate: () => {
      world.instances = 0;
      world.isRunning = false;
      world.isPodRunning = false;
      world.result = undefined;
      memory.instance = "gone";
      memory.isAgentConnected = false;
    },
    awaitEndInApi: () => {
      memory.isEndInApi = world.apiPhase !== "Running";
    },
    deleteCell: () => {
      assert.equal(world.instances, 0, "a Cell outlives its instance");
      const { end, isEndInApi } = memory;
      Object.assign(memory, forgetful(), { end, isEndInApi, isEndRecorded: end !== undefined });
      Object.assign(world, { cell: false, claimed: false, cellEnd: undefined });
    },
    wait: () => {},
    done: () => {},
  };
  effects[step.kind]();
  if (isAnswerLost) Object.assign(memory, before, { instance: "unknown" });
}

/** Simulates what happens beside the steps: the agent reports, and the pod's status is written. */
function live(world: World, memory: Memory): void {
  if (memory.isAgentConnected && world.instances === 1 && world.result) memory.end ??= world.result;
  if (memory.end && world.isStatusTaken && world.apiPhase === "Running")
    world.apiPhase = memory.end;
}

const faults = fc.array(fc.constantFrom("none", "kill", "lose answer"), {
  minLength: 40,
  maxLength: 40,
});

describe("planCell() in a world that fails", () => {
  it("runs the pod once, on one machine, whatever is killed or lost on the way", () => {
    fc.assert(
      fc.property(faults, (plan) => {
        const world = nothing();
        let memory = forgetful();
        for (const fault of [...plan, ...Array<string>(20).fill("none")]) {
          act(planCell(observe(world, memory, "run")), world, memory, fault === "lose answer");
          assert.ok(world.instances <= 1);
          if (fault === "kill") memory = forgetful();
        }
        assert.deepEqual([world.isPodRunning, world.podStarts, world.instances], [true, 1, 1]);
      }),
    );
  });

  it("leaves nothing after a removal, from whatever point", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 12 }), faults, (stepsBefore, plan) => {
        const world = nothing();
        let memory = forgetful();
        for (let step = 0; step < stepsBefore; step++)
          act(planCell(observe(world, memory, "run")), world, memory, false);
        for (const fault of [...plan, ...Array<string>(20).fill("none")]) {
          const step = planCell(observe(world, memory, "remove"));
          assert.ok(!["createCell", "launch", "dispatch"].includes(step.kind));
          act(step, world, memory, fault === "lose answer");
          if (fault === "kill") memory = forgetful();
        }
        assert.deepEqual([world.cell, world.instances], [false, 0]);
        assert.equal(planCell(observe(world, memory, "remove")).kind, "done");
      }),
    );
  });

  it("neither runs a pod that succeeded again nor fails it, however long its status is refused", () => {
    const many = fc.array(
      fc.constantFrom("none", "none", "kill", "lose answer", "refuse", "take", "lose machine"),
      { minLength: 60, maxLength: 60 },
    );
    const policies = fc.constantFrom("Never" as const, "OnFailure" as const);
    fc.assert(
      fc.property(fc.integer({ min: 6, max: 20 }), many, policies, (runsFor, plan, policy) => {
        const world = nothing();
        let memory = restarted(world);
        const step = (isAnswerLost: boolean): void => {
          live(world, memory);
          act(planCell(observe(world, memory, "run", policy)), world, memory, isAnswerLost);
          live(world, memory);
        };
        for (let count = 0; count < runsFor; count++) step(false);
        world.isPodRunning = false;
        world.result = "Succeeded";
        world.isStatusTaken = false;
        for (const fault of plan) {
          step(fault === "lose answer");
          if (fault === "refuse" || fault === "take") world.isStatusTaken = fault === "take";
          // What only the machine knows of the end is lost with it, so it must be in the Cell before.
          if (fault === "lose machine" && world.cellEnd) {
            Object.assign(world, { instances: 0, isRunning: false, result: undefined });
            Object.assign(memory, { instance: "gone", isAgentConnected: false });
          }
          if (fault === "kill") memory = restarted(world);
        }
        world.isStatusTaken = true;
        for (let count = 0; count < 20; count++) step(false);
        assert.equal(world.podStarts, 1);
        assert.deepEqual([world.apiPhase, world.cell, world.instances], ["Succeeded", false, 0]);
      }),
      { numRuns: 500 },
    );
  });
});
