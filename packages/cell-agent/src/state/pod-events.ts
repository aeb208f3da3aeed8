import type { PodEventReport } from "@kip/agent-api";
import { defined } from "@kip/base";

const kept = 100;

/** An event without number and time. */
export type NewEvent = Omit<PodEventReport, "sequence" | "time">;

/** The events of a pod with one more: numbered, the last 100. */
export function withEvent(
  events: readonly PodEventReport[],
  event: NewEvent,
  nowMs: number,
): readonly PodEventReport[] {
  const sequence = (events.at(-1)?.sequence ?? 0) + 1;
  const time = new Date(nowMs).toISOString();
  // A message comes from programs of the pod too; the API takes 1024 bytes.
  const message = event.message.slice(0, 1000);
  return [...events, { ...event, message, sequence, time }].slice(-kept);
}

/** Tells what happens to the pod, in the kubelet's words. */
export class PodEvents {
  readonly #tell: (event: NewEvent) => void;

  /** @param tell keeps an event */
  constructor(tell: (event: NewEvent) => void) {
    this.#tell = tell;
  }

  normal(reason: string, message: string, container?: string): void {
    this.#tell(defined({ type: "Normal" as const, reason, message, container }));
  }

  warning(reason: string, message: string, container?: string): void {
    this.#tell(defined({ type: "Warning" as const, reason, message, container }));
  }
}
