import { open } from "node:fs/promises";
import { every, isSystemError, type Clock, type Logger } from "@kip/base";
import type { MachineStore } from "./machine-store.ts";

/** A console that is larger than this is truncated, bytes. */
const maxBytes = 4 * 2 ** 20;
/** How much of its end is kept, bytes. */
const keptBytes = 256 * 1024;
/** Interval between checks, milliseconds. A machine writes at most some hundred kilobytes a second. */
const checkIntervalMs = 60_000;

/**
 * Truncates long consoles until the signal aborts. A machine may write to its console endlessly, and all share the host's disk.
 * Polls, because an event for each write would cost more.
 */
export async function keepConsolesShort(options: {
  readonly store: Pick<MachineStore, "readAll" | "files">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { store, ...others } = options;
  await every(
    {
      ...others,
      intervalMs: checkIntervalMs,
      isImmediate: false,
      what: "cut consoles of machines",
    },
    async () => {
      for (const { id } of await store.readAll()) await cut(store.files(id).console);
    },
  );
}

/** Keeps the end of a console. QEMU appends, so its concurrent output ends up before or after that. */
async function cut(file: string): Promise<void> {
  try {
    await using handle = await open(file, "r+");
    const { size } = await handle.stat();
    if (size <= maxBytes) return;
    const end = Buffer.alloc(keptBytes);
    const { bytesRead } = await handle.read(end, 0, keptBytes, size - keptBytes);
    await handle.truncate(0);
    await using again = await open(file, "a");
    await again.write(end.subarray(0, bytesRead));
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
  }
}
