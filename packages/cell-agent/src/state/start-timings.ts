import { isRunning, type ContainerRecord } from "./container-record.ts";

/** How long the phases of the pod's start took: pull, unpack, start. Their sum is the whole. */
export interface StartTimings {
  /** Milliseconds by phase; with `start` they are complete. */
  readonly values: Readonly<Record<string, number>>;
  /** When the pod came, monotonic milliseconds; absent if that was in an earlier life of the agent. */
  readonly receivedAtMs?: number | undefined;
  /** When the last image was there. */
  readonly imagesReadyAtMs?: number | undefined;
}

/** Notes that an image is there: the last one before the start decides what pull and unpack took. */
export function withImageReady(
  timings: StartTimings,
  took: { readonly unpack: number } | undefined,
  nowMs: number,
): StartTimings {
  const { receivedAtMs, values } = timings;
  if (receivedAtMs === undefined || values["start"] !== undefined) return timings;
  const unpack = took?.unpack ?? 0;
  const pull = Math.max(0, nowMs - receivedAtMs - unpack);
  const phases = { pull: Math.round(pull), unpack: Math.round(unpack) };
  return { receivedAtMs, imagesReadyAtMs: nowMs, values: phases };
}

/** Notes the moment when all main containers run for the first time, if it is now. */
export function withStart(
  timings: StartTimings,
  containers: Iterable<ContainerRecord>,
  nowMs: number,
): StartTimings {
  const { imagesReadyAtMs, values } = timings;
  if (imagesReadyAtMs === undefined || values["start"] !== undefined) return timings;
  for (const record of containers) if (record.kind === "main" && !isRunning(record)) return timings;
  return { ...timings, values: { ...values, start: Math.round(nowMs - imagesReadyAtMs) } };
}
