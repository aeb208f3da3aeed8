import { open } from "node:fs/promises";
import { every, isSystemError, type Clock, type Logger } from "@kip/base";
import type { MachineStore } from "./machine-store.ts";

/** A console that takes more is cut, bytes. */
const maxBytes = 4 * 2 ** 20;
/** What is left of it, bytes. */
const keptBytes = 256 * 1024;
/** How often consoles are looked at, milliseconds: a machine writes some hundred kilobytes a second at most. */
const lookMs = 60_000;

/**
 * Cuts consoles that have become long, until the signal aborts: a machine may write to its console without end, and the
 * host's disk is shared. It polls, since an event for each write would cost more.
 */
export async function keepConsolesShort(options: {
  readonly store: Pick<MachineStore, "readAll" | "files">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { store, ...others } = options;
  await every(
    { ...others, intervalMs: lookMs, isImmediate: false, what: "cut consoles of machines" },
    async () => {
      for (const { id } of await store.readAll()) await cut(store.files(id).console);
    },
  );
}

/** Leaves the end of a console. QEMU appends, so what it writes meanwhile follows, or precedes, what is left. */
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
