import { PriorityQueue } from "./priority-queue.ts";

/** The queue in which a change waits. */
export type ChangeKind = "changed" | "leaving" | "losing";

/** A consequence has the number of its cause plus this step. The integer part is the number of the API change that it comes from. */
const step = 0.25;

/**
 * Numbers the changes of the API, and records which of them, and which of their consequences, are not computed yet. Example of consequences:
 * a Service exceeds the budget, so it gives up its address, so another Service gets the address. The first three consequences count as part
 * of a change, and the next one counts as a new change. Otherwise a user who keeps changing Services could prevent an earlier change from
 * ever being complete.
 */
export class ChangeOrigins {
  readonly #waiting = new PriorityQueue<number>();
  #last = 0;

  /** The number of the latest change. */
  get last(): number {
    return this.#last;
  }

  /** Assigns a number to a new change. */
  next(): number {
    return ++this.#last;
  }

  /** The number of a consequence of a change. */
  causedBy(number: number): number {
    return number % 1 < 1 - step ? number + step : this.next();
  }

  /** Records that a key waits in a queue because of a change. If it already waits, the lower number counts. */
  note(kind: ChangeKind, key: string, number: number): void {
    const name = `${kind} ${key}`;
    this.#waiting.set(name, Math.min(this.#waiting.rankOf(name) ?? number, number));
  }

  /** Records that a key no longer waits in a queue. @returns the number of its change */
  take(kind: ChangeKind, key: string): number {
    const name = `${kind} ${key}`;
    const number = this.#waiting.rankOf(name) ?? this.#last;
    this.#waiting.set(name, undefined);
    return number;
  }

  /** Whether a change up to this number, or one of its consequences, still waits. */
  isWaiting(number: number): boolean {
    const { least } = this.#waiting;
    if (least === undefined) return false;
    return Math.floor(this.#waiting.rankOf(least) ?? Infinity) <= number;
  }
}
