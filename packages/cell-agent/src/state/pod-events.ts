import type { PodEventReport } from "@kip/agent-api";
import type { Clock } from "@kip/base";

const kept = 100;

/** An event without what {@link PodEvents} adds. */
export type NewEvent = Omit<PodEventReport, "sequence" | "time">;

/** The events of a pod, numbered, the last 100. */
export class PodEvents {
  readonly #clock: Clock;
  #events: readonly PodEventReport[];

  constructor(clock: Clock, saved: readonly PodEventReport[] = []) {
    this.#clock = clock;
    this.#events = saved;
  }

  get list(): readonly PodEventReport[] {
    return this.#events;
  }

  add(event: NewEvent): void {
    const sequence = (this.#events.at(-1)?.sequence ?? 0) + 1;
    const time = new Date(this.#clock.now()).toISOString();
    // A message comes from programs of the pod too; the API takes 1024 bytes.
    const message = event.message.slice(0, 1000);
    this.#events = [...this.#events, { ...event, message, sequence, time }].slice(-kept);
  }

  normal(reason: string, message: string, container?: string): void {
    this.add({ type: "Normal", reason, message, ...(container !== undefined && { container }) });
  }

  warning(reason: string, message: string, container?: string): void {
    this.add({ type: "Warning", reason, message, ...(container !== undefined && { container }) });
  }
}
