import { PriorityQueue } from "./priority-queue.ts";

/** Where a change waits. */
export type ChangeKind = "changed" | "leaving" | "losing";

/** What a change causes is a quarter younger, so it is known which change of the API it comes from. */
const step = 0.25;

/**
 * Numbers the changes of the API, and remembers which of them have not been computed. What one causes counts as that change, too, three
 * deep: a Service is refused, gives back its address, and another one gets it. Deeper, it is a change of its own, so that who goes on
 * changing Services cannot keep an early one from being done.
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

  /** The number of what a change causes. */
  causedBy(number: number): number {
    return number % 1 < 1 - step ? number + step : this.next();
  }

  /** Notes that something waits; the first change that it waits for counts. */
  note(kind: ChangeKind, key: string, number: number): void {
    const name = `${kind} ${key}`;
    this.#waiting.set(name, Math.min(this.#waiting.rankOf(name) ?? number, number));
  }

  /** Notes that it does not wait any longer. @returns its number */
  take(kind: ChangeKind, key: string): number {
    const name = `${kind} ${key}`;
    const number = this.#waiting.rankOf(name) ?? this.#last;
    this.#waiting.set(name, undefined);
    return number;
  }

  /** Whether a change up to that number waits, or what it has caused. */
  isWaiting(number: number): boolean {
    const { least } = this.#waiting;
    if (least === undefined) return false;
    return Math.floor(this.#waiting.rankOf(least) ?? Infinity) <= number;
  }
}
