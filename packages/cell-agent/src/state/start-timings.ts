import { isRunning, type ContainerRecord } from "./container-record.ts";

/** Durations of the phases of the pod's start: pull, unpack, start. Their sum is the total. */
export interface StartTimings {
  /** Milliseconds by phase. Complete when `start` is present. */
  readonly values: Readonly<Record<string, number>>;
  /** When the pod arrived, monotonic milliseconds. Absent if that was in an earlier process of the agent. */
  readonly receivedAtMs?: number | undefined;
  /** When the last image was available. */
  readonly imagesReadyAtMs?: number | undefined;
}

/** Records that an image is available. The last one before the start determines the durations of pull and unpack. */
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

/** Records the moment when all main containers run for the first time, if that is now. */
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
