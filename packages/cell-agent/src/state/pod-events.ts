import { maxEvents, plainText, type PodEventReport } from "@kip/agent-api";
import { defined } from "@kip/base";
import type { PodState } from "./pod-state.ts";

/** Events that are kept of each pod, and for each of its containers: a start has four, and something may go wrong. */
const kept = 100;
const keptEach = 10;
/** Longest message, characters. It comes from programs of the pod too; the API takes 1024 bytes. */
const maxMessage = 1000;
/** What the messages of all events may have, characters: a report that is too long is none. */
const maxMessages = kept * maxMessage;

/** An event without number and time. */
export type NewEvent = Omit<PodEventReport, "sequence" | "time">;

/** The events of a pod with one more: numbered, the last 100, or ten for each container where that is more and they are short. */
export function withEvent(
  { events, containers }: Pick<PodState, "events" | "containers">,
  event: NewEvent,
  nowMs: number,
): readonly PodEventReport[] {
  const sequence = (events.at(-1)?.sequence ?? 0) + 1;
  const time = new Date(nowMs).toISOString();
  // A text of its own: a part of another one keeps that in memory, and a pod answers a probe with 1 MiB.
  const message = plainText(event.message, maxMessage);
  const all = [...events, { ...event, message, sequence, time }];
  const most = Math.min(maxEvents, Math.max(kept, keptEach * containers.size));
  return newest(all.slice(-most));
}

function newest(events: readonly PodEventReport[]): readonly PodEventReport[] {
  let room = maxMessages;
  const last = events.findLastIndex(({ message }) => (room -= message.length) < 0);
  return events.slice(last + 1);
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
