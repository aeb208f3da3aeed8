import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { systemClock, type Clock } from "@kip/base";
import type { CloudDriver } from "../../cloud-driver.ts";
import { Bench, prepareBench } from "../bench/bench.ts";
import type { ConformanceCase } from "../bench/conformance-case.ts";
import { conformanceTopics } from "../conformance-topics.ts";
import { simulatedConformance } from "../simulated-conformance.ts";
import { launchMutants } from "./launch-mutants.ts";
import { listingMutants } from "./listing-mutants.ts";
import { withDefect, type Mutant } from "./mutant.ts";
import { volumeMutants } from "./volume-mutants.ts";
import { waitingMutants } from "./waiting-mutants.ts";

/**
 * With a sound driver every clause is much faster, whatever else the computer is doing. A clause that hangs counts as failed.
 */
const limitMs = { sound: 30_000, mutant: 1500 };

const sound: Mutant = { name: "nothing", breaks: [], mutate: () => ({}) };

/** Defects must not leave anything behind that keeps this process alive. */
const clock: Clock = {
  ...systemClock,
  sleep: async (ms, signal) => {
    try {
      await setTimeout(ms, undefined, { ref: false, signal });
    } finally {
      signal?.throwIfAborted();
    }
  },
};

/** Whether a clause fails for a driver with this defect. */
async function isBroken(clause: ConformanceCase, mutant: Mutant): Promise<boolean> {
  const conformance = simulatedConformance({ callMs: 0, clock });
  const { simulated } = conformance;
  const notes = new Map<string, string>();
  const openAs = async (owner: string, other: string): Promise<CloudDriver> => {
    const handle = simulated.open({ owner });
    const stranger = simulated.open({ owner: other });
    const context = { sound: handle, stranger, cloud: simulated, notes };
    return await Promise.resolve(withDefect(context, mutant));
  };
  const options = {
    ...conformance,
    open: () => openAs("tests", "stranger"),
    openAsStranger: () => openAs("stranger", "tests"),
    schedules: { count: 1, steps: 8 },
  };
  const limit = mutant === sound ? limitMs.sound : limitMs.mutant;
  const timeLimit = new AbortController();
  const done = new AbortController();
  const hung = setTimeout(limit, undefined, { signal: done.signal }).then(() => {
    timeLimit.abort(new Error("The clause hung"));
    timeLimit.signal.throwIfAborted();
  });
  try {
    const bench = new Bench(await prepareBench(options), options, timeLimit.signal);
    await Promise.race([clause.run(bench), hung]);
    await Promise.race([bench.clear(), hung]);
    return false;
  } catch {
    return true;
  } finally {
    done.abort();
    await hung.catch(() => {});
  }
}

async function brokenClauses(mutant: Mutant): Promise<readonly string[]> {
  const clauses = conformanceTopics.flatMap(({ cases }) => cases);
  const broken = await Promise.all(clauses.map((clause) => isBroken(clause, mutant)));
  return clauses.filter((_, index) => broken[index]).map(({ name }) => name);
}

const mutants = [...launchMutants, ...listingMutants, ...waitingMutants, ...volumeMutants];

describe("conformance suite", () => {
  it("finds nothing wrong with a sound driver", async () => {
    assert.deepEqual(await brokenClauses(sound), []);
  });
});

// The tests wait most of the time.
describe("conformance suite", { concurrency: 16 }, () => {
  for (const mutant of mutants) {
    it(`catches a driver that ${mutant.name}`, async (test) => {
      const broken = await brokenClauses(mutant);
      test.diagnostic(`${broken.length} clauses are broken`);
      for (const wanted of mutant.breaks)
        assert.ok(
          broken.some((name) => name.startsWith(wanted)),
          `${wanted}: ${broken.join("; ")}`,
        );
    });
  }
});
