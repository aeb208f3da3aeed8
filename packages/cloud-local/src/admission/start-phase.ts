import { watch } from "node:fs";
import { access } from "node:fs/promises";
import type { Clock } from "@kip/base";
import { readTail } from "../machine/machine-process.ts";
import type { MachineFiles } from "../machine/machine-store.ts";

/**
 * How long a machine counts as starting that does not tell when it is up, milliseconds: a cell needs 4 s alone under
 * emulation, and several times as long beside others. Whoever waits longer than needed loses less than all lose when
 * fifty machines boot at once.
 */
const startLimitMs = 20_000;

/** What a cell's agent writes to its log, which the console shows, once it listens. */
const sign = /"Agent listens"/;

/** Resolves when the machine says on its console that it is up, is gone, or the time for that is over. */
export async function untilUp(
  files: MachineFiles,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = new AbortController();
  const either = AbortSignal.any([stop.signal, signal]);
  const check = async (): Promise<void> => {
    const isThere = await access(files.record).then(
      () => true,
      () => false,
    );
    if (!isThere || sign.test(await readTail(files.console, 65_536))) resolve();
  };
  try {
    const watcher = watch(files.folder, { signal: either }, () => void check().catch(resolve));
    watcher.on("error", () => resolve());
    await check();
    clock.sleep(startLimitMs, either).then(resolve, resolve);
    await promise;
  } catch {
    // Its folder is gone.
  } finally {
    stop.abort();
  }
}
