import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { Cell } from "./cell.ts";
import { planCell, type CellObservation, type CellStep } from "./cell-plan.ts";

/** The outside world: what survives a kill of kip. */
interface World {
  cell: boolean;
  claimed: boolean;
  instances: number;
  isRunning: boolean;
  podStarts: number;
  isPodRunning: boolean;
}

/** What kip remembers: gone after a kill. */
interface Memory {
  instance: CellObservation["instance"];
  isAgentConnected: boolean;
  isDispatched: boolean;
  drainSent: number | undefined;
  areLogsSaved: boolean;
}

const cell = { metadata: { uid: "u" }, spec: {} } as unknown as Cell; // the plan looks at its presence alone
const forgetful = (): Memory => ({
  instance: "unknown",
  isAgentConnected: false,
  isDispatched: false,
  drainSent: undefined,
  areLogsSaved: false,
});

function observe(world: World, memory: Memory, wanted: "run" | "remove"): CellObservation {
  return {
    ...memory,
    wanted: wanted === "run" ? { kind: "run" } : { kind: "remove", graceSeconds: 1 },
    cell: world.cell ? cell : undefined,
    isPodFinished: false,
    isCellDeleted: false,
    wasClaimed: world.claimed,
    isDrained: memory.drainSent !== undefined && !world.isPodRunning,
    isDrainOverdue: false,
    isUnhealthy: false,
  };
}

/** Does a step in the world; the second half, what kip remembers of it, may be lost. */
function act(step: CellStep, world: World, memory: Memory, isAnswerLost: boolean): void {
  const before = { ...memory };
  const effects: { readonly [K in CellStep["kind"]]: () => void } = {
    createCell: () => {
      world.cell = true;
    },
    observeInstance: () => {
      memory.instance = world.instances === 0 ? "none" : world.isRunning ? "running" : "pending";
    },
    launch: () => {
      // Idempotent by token: a second launch finds the first one's instance.
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
      if (!world.isPodRunning) world.podStarts++;
      world.isPodRunning = true;
      memory.isDispatched = true;
    },
    drain: () => {
      world.isPodRunning = false;
      memory.drainSent = 1;
    },
    saveLogs: () => {
      memory.areLogsSaved = true;
    },
    terminate: () => {
      world.instances = 0;
      world.isRunning = false;
      world.isPodRunning = false;
      memory.instance = "gone";
    },
    deleteCell: () => {
      assert.equal(world.instances, 0, "a Cell outlives its instance");
      world.cell = false;
      world.claimed = false;
      Object.assign(memory, forgetful());
    },
    wait: () => {},
    done: () => {},
  };
  effects[step.kind]();
  if (isAnswerLost) Object.assign(memory, before, { instance: "unknown" });
}

const faults = fc.array(fc.constantFrom("none", "kill", "lose answer"), {
  minLength: 40,
  maxLength: 40,
});

describe("planCell() in a world that fails", () => {
  it("runs the pod once, on one machine, whatever is killed or lost on the way", () => {
    fc.assert(
      fc.property(faults, (plan) => {
        const world: World = {
          cell: false,
          claimed: false,
          instances: 0,
          isRunning: false,
          podStarts: 0,
          isPodRunning: false,
        };
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
        const world: World = {
          cell: false,
          claimed: false,
          instances: 0,
          isRunning: false,
          podStarts: 0,
          isPodRunning: false,
        };
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
});
