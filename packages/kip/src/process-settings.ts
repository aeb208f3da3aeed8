/**
 * Node flags for a process that runs a virtual node. By default V8 sizes its heap by the machine's memory: with 24 GiB, the
 * space for new objects alone grows to 128 MiB, and the rest doubles before it is collected. These flags limit the former to 12
 * MiB, and the growth of the latter between two collections to half. There is no overall limit, because it would end a kip with
 * many cells.
 */
export const nodeFlags: readonly string[] = [
  "--max-semi-space-size=4",
  "--heap-growing-percent=50",
];

/**
 * Environment of such a process, for the C library: all threads share one heap, and free memory at its end beyond 128 KiB is
 * returned to the system.
 */
export const allocatorSettings: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_TRIM_THRESHOLD_: "131072",
};
