import assert from "node:assert/strict";
import type { MovableClock } from "../kip-life.ts";
import { assertFinal } from "./final-state.ts";
import { FaultWorld, type WorldOptions } from "./fault-world.ts";
import { perform, type Operation } from "./operations.ts";

/** A world, and what happens to it. */
export interface Story {
  readonly world: WorldOptions;
  readonly operations: readonly Operation[];
}

/** Long enough for all that is repeated after a pause, of at most five minutes, to be repeated; milliseconds. */
const healingMs = 900_000;
/** Until the first process of kip has started, milliseconds. */
const startMs = 2000;

/**
 * Lets a story happen, and after it nothing that goes wrong.
 *
 * @returns how much has happened
 * @throws AssertionError that says what is not as it must be
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

/** Leaves out what a story that fails does not need for that, for so long, milliseconds. */
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
