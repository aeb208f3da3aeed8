import type { Clock } from "../clock.ts";
import { readProcess, signalProcess } from "./processes.ts";

/** Options of {@link endProcesses}. */
export interface EndProcessesOptions {
  /** Finds the IDs of the remaining processes. Called again until there are none. */
  readonly find: () => Promise<readonly number[]>;
  /** Selects the processes that get SIGTERM and end the others, from those found first. @default all */
  readonly leaders?: ((pids: readonly number[]) => Promise<readonly number[]>) | undefined;
  /** Time between SIGTERM and SIGKILL, milliseconds. */
  readonly graceMs: number;
  /** How long the kernel may take to end killed processes, milliseconds. */
  readonly killLimitMs: number;
  /** Kills processes that `find` may miss because they keep forking. Returns whether none of them remain. */
  readonly killHidden?: (() => Promise<boolean>) | undefined;
  readonly clock: Clock;
}

/** The result of {@link endProcesses}. */
export interface EndedProcesses {
  /** The processes found first. */
  readonly found: readonly number[];
  /** Killed processes that still exist. */
  readonly left: readonly number[];
  /** Whether no process remains, including those that `find` may miss. */
  readonly areAllGone: boolean;
}

/** Interval between checks, milliseconds. The kernel reports the end of a process only to its parent. */
const lookMs = 5;
/** Interval between searches for processes that were forked during the killing, milliseconds. */
const passMs = 50;

/**
 * Ends processes, which need not be children of this one: SIGTERM, then SIGKILL after `graceMs`, also to processes that they
 * forked in the meantime. Resolves when none remain, or when `killLimitMs` is over: a process may be waiting for a disk.
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
