import { access } from "node:fs/promises";
import { watchOrPoll, withTimeout, type Clock } from "@kip/base";
import type { Instance } from "@kip/cloud";
import { readTail } from "../host/file-text.ts";
import type { MachineFiles } from "../machine/machine-store.ts";

/**
 * How long a machine counts as starting that does not tell, milliseconds: until its agent listens, and from then on until
 * its pod runs. Under emulation the one takes 4 s alone and the other 2, beside others several times as long; and a pod
 * may come late, or its images from far away. One launch that waits too long costs less than
 * fifty machines that start at once.
 */
const limitsMs = { agent: 20_000, pod: 10_000 } as const;

/** What the agent of a cell writes to its log, which the console shows. */
const signs = { agent: /"Agent listens"/, pod: /"Pod has started"/ } as const;

/**
 * Resolves when the machine needs a processor no more than others do: its console tells that its pod runs; or it is gone,
 * or its time is over.
 */
export async function untilUp(
  files: MachineFiles,
  startedFrom: Instance["startedFrom"],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  // The agent of a copy listens when it runs.
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
    // Its time is over, its folder is gone, or kip ends.
  }
}
