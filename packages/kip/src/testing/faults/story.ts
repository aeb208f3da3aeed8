import assert from "node:assert/strict";
import type { MovableClock } from "../kip-life.ts";
import { assertFinal } from "./final-state.ts";
import { FaultWorld, type WorldOptions } from "./fault-world.ts";
import { perform, type Operation } from "./operations.ts";

/** A world, and the operations on it. */
export interface Story {
  readonly world: WorldOptions;
  readonly operations: readonly Operation[];
}

/** Long enough for everything that is repeated after a pause of at most five minutes, milliseconds. */
const healingMs = 900_000;
/** Time until the first process of kip has started, milliseconds. */
const startMs = 2000;

/**
 * Carries out a story, and then waits without faults.
 *
 * @returns counts of what has happened
 * @throws AssertionError that describes what is wrong
 */
export async function tell(story: Story, clock: MovableClock): Promise<FaultWorld["figures"]> {
  const world = new FaultWorld(clock, story.world);
  try {
    await world.pass(startMs);
    for (const each of story.operations) {
      await perform(world, each);
      assert.deepEqual(world.mistakes, []);
    }
    await world.heal();
    await world.pass(healingMs, 5000);
    await assertFinal(world);
    return world.figures;
  } finally {
    await world.stop();
  }
}

/** Removes operations that a failing story does not need for its failure, for this long, milliseconds. */
export async function shorten(
  story: Story,
  limitMs: number,
  tellIt: (story: Story) => Promise<unknown>,
): Promise<Story> {
  const fails = async (shorter: Story): Promise<boolean> =>
    await tellIt(shorter).then(
      () => false,
      () => true,
    );
  const endsAt = performance.now() + limitMs;
  let shortest = story;
  for (let size = Math.ceil(story.operations.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < shortest.operations.length && performance.now() < endsAt;) {
      const shorter = { ...shortest, operations: shortest.operations.toSpliced(at, size) };
      if (await fails(shorter)) shortest = shorter;
      else at += size;
    }
  }
  return shortest;
}
