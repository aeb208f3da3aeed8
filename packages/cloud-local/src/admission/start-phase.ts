import { access } from "node:fs/promises";
import { watchOrPoll, withTimeout, type Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { readTail } from "../host/file-text.ts";
import type { MachineFiles } from "../machine/machine-store.ts";

/**
 * How long a machine counts as starting without a sign from it, milliseconds: until its agent listens, and then until its pod
 * runs. Under emulation these take 4 s and 2 s for a single machine, and several times as long if others are also starting. A
 * pod may also arrive late, or its images may take long. One launch that waits too long is better than fifty machines that
 * start at once.
 */
const limitsMs = { agent: 20_000, pod: 10_000 } as const;

/** Lines that a cell's agent writes to its log, which the console shows. */
const signs = { agent: /"Agent listens"/, pod: /"Pod has started"/ } as const;

/**
 * Resolves when the machine needs no more CPU than other machines: its console shows that its pod runs, or it is gone, or its
 * time is over.
 */
export async function untilUp(
  files: MachineFiles,
  startedFrom: Instance["startedFrom"],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  // The agent of a copy already listens when the copy runs.
  if (startedFrom === undefined || startedFrom === "boot")
    await untilSign("agent", files, clock, signal);
  await untilSign("pod", files, clock, signal);
}

async function untilSign(
  sign: keyof typeof signs,
  files: MachineFiles,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const seen = Promise.withResolvers<void>();
  const check = async (): Promise<void> => {
    const isThere = await access(files.record).then(
      () => true,
      () => false,
    );
    if (!isThere || signs[sign].test(await readTail(files.console, 65_536))) seen.resolve();
  };
  try {
    using _watch = watchOrPoll(files.folder, () => void check().catch(seen.resolve));
    await check();
    await withTimeout(async () => await seen.promise, { limitMs: limitsMs[sign], clock, signal });
  } catch {
    // Its time is over, its folder is gone, or kip is ending.
  }
}
