import { backoffDelay, systemClock, type Clock } from "@kip/base";
import { CloudInitError } from "./errors.ts";
import type { DataSource } from "./instance-data.ts";

/** Options of {@link findSource}. */
export interface FindSourceOptions {
  readonly signal: AbortSignal;
  /** Time limit of the whole search, milliseconds. @default 300,000 (five minutes) */
  readonly limitMs?: number | undefined;
  /** @default systemClock */
  readonly clock?: Clock | undefined;
}

/**
 * Checks all sources concurrently, each again after 100 ms, doubling up to 5 s. Returns the first that has data for this
 * machine.
 *
 * @throws {CloudInitError} `DATA_SOURCE_MISSING` after the time limit
 * @throws the signal's reason
 */
export async function findSource(
  sources: readonly DataSource[],
  options: FindSourceOptions,
): Promise<DataSource> {
  const { signal, limitMs = 300_000, clock = systemClock } = options;
  const names = sources.map(({ name }) => name).join(", ");
  const end = new AbortController();
  const search = AbortSignal.any([signal, end.signal]);
  const limit = clock.sleep(limitMs, search).then(() => {
    throw new CloudInitError(
      "DATA_SOURCE_MISSING",
      `Cannot find the data of this machine: ${names} had none within ${limitMs / 1000} s`,
      { remedy: "Check that the machine runs on this cloud and may reach its metadata service" },
    );
  });
  try {
    return await Promise.race([
      limit,
      ...sources.map(async (each) => await ask(each, search, clock)),
    ]);
  } finally {
    end.abort();
    limit.catch(() => {}); // aborted by the line above
  }
}

async function ask(source: DataSource, signal: AbortSignal, clock: Clock): Promise<DataSource> {
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    if (await source.isAvailable(signal)) return source;
    await clock.sleep(backoffDelay(attempt, { initialMs: 100, maxMs: 5000 }), signal);
  }
}
