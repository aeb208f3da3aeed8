import type { ContainerRecord } from "./container-record.ts";

const initialMs = 10_000;
const maxMs = 300_000;

/** How long an image or a container that could not be made is left alone, by number of failures. */
export function failureDelayMs(failures: number): number {
  return Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 10));
}

/**
 * Counts an end of a container and gives the delay before its next start, as the kubelet has it:
 * none after the first, then 10 s, doubling to 5 min; forgotten after 10 min without an end.
 */
export function crashDelayMs(record: ContainerRecord, nowMs: number): number {
  const last = record.saved.backoff;
  if (!last || nowMs - last.updatedAtMs > 2 * maxMs) {
    record.saved.backoff = { delayMs: initialMs, updatedAtMs: nowMs };
    return 0;
  }
  record.saved.backoff = {
    delayMs: Math.min(maxMs, last.delayMs * 2),
    updatedAtMs: nowMs + last.delayMs,
  };
  return last.delayMs;
}
