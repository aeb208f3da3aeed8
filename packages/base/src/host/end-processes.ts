import type { Clock } from "../clock.ts";
import { readProcess, signalProcess } from "./processes.ts";

/** Options of {@link endProcesses}. */
export interface EndProcessesOptions {
  /** Finds the IDs of those that live; asked again until there are none. */
  readonly find: () => Promise<readonly number[]>;
  /** Those that get SIGTERM and end the others, of the ones that were found first. @default all */
  readonly leaders?: ((pids: readonly number[]) => Promise<readonly number[]>) | undefined;
  /** How long they may take after SIGTERM, milliseconds; then comes SIGKILL. */
  readonly graceMs: number;
  /** How long the kernel may take to end those that were killed, milliseconds. */
  readonly killLimitMs: number;
  /** Kills those that `find` may miss because they fork all the time, and returns whether none of them is left. */
  readonly killHidden?: (() => Promise<boolean>) | undefined;
  readonly clock: Clock;
}

/** What {@link endProcesses} has done. */
export interface EndedProcesses {
  /** Those that were found first. */
  readonly found: readonly number[];
  /** Those that were killed and are still there. */
  readonly left: readonly number[];
  /** Whether none is left, also of those that cannot be found. */
  readonly areAllGone: boolean;
}

/** How often processes are looked at, milliseconds: the kernel reports the end of a process to its parent only. */
const lookMs = 5;
/** How often those are looked for that were forked while others were killed, milliseconds. */
const passMs = 50;

/**
 * Ends processes that need not be children of this one: SIGTERM, then SIGKILL after `graceMs`, to those that they have
 * forked meanwhile too. Resolves when none is left, or the kernel has not ended them in time: they may wait for a disk.
 */
export async function endProcesses(options: EndProcessesOptions): Promise<EndedProcesses> {
  const { find, graceMs, killLimitMs, clock, killHidden } = options;
  const found = await find();
  for (const pid of (await options.leaders?.(found)) ?? found) signalProcess(pid, "SIGTERM");
  await untilGone(found, graceMs, clock);
  const until = clock.monotonic() + killLimitMs;
  for (;;) {
    const areHiddenGone = (await killHidden?.()) ?? true;
    const left = await find();
    const areAllGone = areHiddenGone && left.length === 0;
    if (areAllGone || clock.monotonic() > until) return { found, left, areAllGone };
    for (const pid of left) signalProcess(pid, "SIGKILL");
    if (left.length === 0) await clock.sleep(lookMs);
    else await untilGone(left, passMs, clock);
  }
}

async function untilGone(pids: readonly number[], limitMs: number, clock: Clock): Promise<void> {
  const until = clock.monotonic() + limitMs;
  while ((await isAnyAlive(pids)) && clock.monotonic() <= until) await clock.sleep(lookMs);
}

async function isAnyAlive(pids: readonly number[]): Promise<boolean> {
  const all = await Promise.all(pids.map(readProcess));
  return all.some((each) => each?.isAlive === true);
}
