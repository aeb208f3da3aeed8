import { maxEvents, plainText, type PodEventReport } from "@kip/agent-api";
import { defined } from "@kip/base";
import type { PodState } from "./pod-state.ts";

/** Number of events kept for each pod, and for each of its containers. A start has four, and something may go wrong. */
const maxPodEvents = 100;
const maxContainerEvents = 10;
/** Maximum length of a message, characters. It may come from programs of the pod. The API allows 1024 bytes. */
const maxMessage = 1000;
/** Maximum total length of all messages, characters, because a report that is too long is not accepted. */
const maxMessages = maxPodEvents * maxMessage;

/** An event without its number and time. */
export type NewEvent = Omit<PodEventReport, "sequence" | "time">;

/**
 * Adds an event to those of a pod, with its number. Keeps the last 100, or ten per container if that is more and they are
 * short.
 */
export function withEvent(
  { events, containers }: Pick<PodState, "events" | "containers">,
  event: NewEvent,
  nowMs: number,
): readonly PodEventReport[] {
  const sequence = (events.at(-1)?.sequence ?? 0) + 1;
  const time = new Date(nowMs).toISOString();
  // Copy the text: a part of another text keeps that in memory, and a pod may answer a probe with 1 MiB.
  const message = plainText(event.message, maxMessage);
  const all = [...events, { ...event, message, sequence, time }];
  const most = Math.min(maxEvents, Math.max(maxPodEvents, maxContainerEvents * containers.size));
  return newest(all.slice(-most));
}

function newest(events: readonly PodEventReport[]): readonly PodEventReport[] {
  let room = maxMessages;
  const last = events.findLastIndex(({ message }) => (room -= message.length) < 0);
  return events.slice(last + 1);
}

/** Reports what happens to the pod, in the kubelet's words. */
export class PodEvents {
  readonly #add: (event: NewEvent) => void;

  /** @param tell adds an event */
  constructor(tell: (event: NewEvent) => void) {
    this.#add = tell;
  }

  normal(reason: string, message: string, container?: string): void {
    this.#add(defined({ type: "Normal" as const, reason, message, container }));
  }

  warning(reason: string, message: string, container?: string): void {
    this.#add(defined({ type: "Warning" as const, reason, message, container }));
  }
}
