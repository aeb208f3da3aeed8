import type { Clock } from "@kip/base";
import { isRunning, type ContainerRecord } from "./container-record.ts";

/** How long the phases of the pod's start took, milliseconds: pull, unpack, start. Their sum is the whole. */
export class StartTimings {
  readonly #clock: Clock;
  #values: Readonly<Record<string, number>>;
  #receivedAt: number | undefined;
  #imagesReadyAt: number | undefined;

  constructor(clock: Clock, saved: Readonly<Record<string, number>> = {}) {
    this.#clock = clock;
    this.#values = saved;
  }

  get values(): Readonly<Record<string, number>> {
    return this.#values;
  }

  /** The pod came. */
  received(): void {
    this.#receivedAt = this.#clock.monotonic();
  }

  /** An image is there: the last one before the start decides what pull and unpack took. */
  imageReady(took: { readonly pull: number; readonly unpack: number } | undefined): void {
    if (this.#receivedAt === undefined || this.#values["start"] !== undefined) return;
    this.#imagesReadyAt = this.#clock.monotonic();
    const unpack = took?.unpack ?? 0;
    const pull = Math.max(0, this.#imagesReadyAt - this.#receivedAt - unpack);
    this.#values = { pull: Math.round(pull), unpack: Math.round(unpack) };
  }

  /** Notes the moment when all main containers run for the first time; returns whether it is now. */
  running(containers: readonly ContainerRecord[]): boolean {
    if (this.#imagesReadyAt === undefined || this.#values["start"] !== undefined) return false;
    if (!containers.every((record) => record.kind !== "main" || isRunning(record))) return false;
    const start = Math.round(this.#clock.monotonic() - this.#imagesReadyAt);
    this.#values = { ...this.#values, start };
    return true;
  }
}
