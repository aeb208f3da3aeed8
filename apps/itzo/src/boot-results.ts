import { once } from "node:events";
import { existsSync, readFileSync, renameSync, watch, writeFileSync } from "node:fs";
import path from "node:path";
import { decode } from "@kip/base";

/** The known facts about the machine's start. */
export interface BootResults {
  /** Milliseconds from the machine's start to each step. */
  readonly timingsMs: Readonly<Record<string, number>>;
  /** When the machine started, milliseconds of the monotonic clock. 0, or for a clone the time when it got its identity. */
  readonly startedAtMs: number;
}

const decodeTimings = decode.map(decode.number);

/**
 * Waits until the boot script has set up the network and fetched the seed. The script runs while this program starts.
 *
 * @param directory where the script leaves its results
 */
export async function readBootResults(directory: string): Promise<BootResults> {
  const file = path.join(directory, "boot-timings");
  await waitForFile(file);
  const seconds = decodeTimings(JSON.parse(readFileSync(file, "utf8")), "boot-timings");
  const { startedAt = 0, ...steps } = seconds;
  return {
    timingsMs: Object.fromEntries(
      Object.entries(steps).map(([step, value]) => [step, Math.round(value * 1000)]),
    ),
    startedAtMs: startedAt * 1000,
  };
}

/** Saves the results, in case the agent is restarted. */
export function writeBootResults(directory: string, results: BootResults): void {
  const seconds = Object.fromEntries(
    Object.entries(results.timingsMs).map(([step, value]) => [step, value / 1000]),
  );
  const file = path.join(directory, "boot-timings");
  // Write it atomically, because an agent that cannot read it does not start.
  writeFileSync(
    `${file}.part`,
    JSON.stringify({ ...seconds, startedAt: results.startedAtMs / 1000 }),
  );
  renameSync(`${file}.part`, file);
}

/** Waits until the boot script has written a file. */
export async function waitForFile(file: string): Promise<void> {
  if (existsSync(file)) return;
  // Start to watch before the check, because the file may be written in between.
  const watcher = watch(path.dirname(file));
  try {
    while (!existsSync(file)) await once(watcher, "change");
  } finally {
    watcher.close();
  }
}
