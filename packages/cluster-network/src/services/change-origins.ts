import { PriorityQueue } from "./priority-queue.ts";

/** Where a change waits. */
export type ChangeKind = "changed" | "leaving" | "losing";

/** A consequence of a change has the number of the change plus a quarter, so the whole part says which change of the API it comes from. */
const step = 0.25;

/**
 * Numbers the changes of the API, and remembers which of them are yet to be computed, with their consequences. Three consequences count as
 * part of a change: say, a Service gets no room, gives back its address, and another Service gets that. The next one counts as a new change.
 * Otherwise a user who keeps changing Services could keep an early change from ever being complete.
 */
export class ChangeOrigins {
  readonly #waiting = new PriorityQueue<number>();
  #last = 0;

  /** The number of the last change so far. */
  get last(): number {
    return this.#last;
  }

  /** The number of one more change. */
  next(): number {
    return ++this.#last;
  }

  /** The number of a consequence of a change. */
  causedBy(number: number): number {
    return number % 1 < 1 - step ? number + step : this.next();
  }

  /** Notes that something waits because of a change. If it waits already, the lower number counts. */
  note(kind: ChangeKind, key: string, number: number): void {
    const name = `${kind} ${key}`;
    this.#waiting.set(name, Math.min(this.#waiting.rankOf(name) ?? number, number));
  }

  /** Notes that it no longer waits. @returns its number */
  take(kind: ChangeKind, key: string): number {
    const name = `${kind} ${key}`;
    const number = this.#waiting.rankOf(name) ?? this.#last;
    this.#waiting.set(name, undefined);
    return number;
  }

  /** Whether a change up to that number, or a consequence of one, still waits. */
  isWaiting(number: number): boolean {
    const { least } = this.#waiting;
    if (least === undefined) return false;
    return Math.floor(this.#waiting.rankOf(least) ?? Infinity) <= number;
  }
}
