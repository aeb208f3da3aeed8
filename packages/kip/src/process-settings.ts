/**
 * Flags of Node for a process that runs a virtual node. By default V8 sizes its heap by the machine's memory: on one with 24 GiB, the
 * space for new objects alone grows to 128 MiB, and the rest doubles before it is collected. These flags bound the former to 12 MiB,
 * and the growth of the latter to half between two collections. There is no limit: it would end a kip with many cells.
 */
export const nodeFlags: readonly string[] = [
  "--max-semi-space-size=4",
  "--heap-growing-percent=50",
];

/**
 * Environment of such a process, for the C library: all threads share one heap, and more than 128 KiB of free memory at its end go
 * back to the system.
 */
export const allocatorSettings: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "1",
  MALLOC_TRIM_THRESHOLD_: "131072",
};
