import type { Clock } from "@kip/base";
import type { AddressGroups } from "../policies/address-groups.ts";
import { FairQueue } from "./fair-queue.ts";
import type { RulesDraft } from "./rules-drafts.ts";

/** The duration of a block of work, milliseconds. After it, kip's process does other work. */
export const blockMs = 10;

/** Maximum number of cells that get a change in one block, because each change must also be encrypted. */
export const cellsOfBlock = 64;

/** A cell that may wait for its policy. */
export interface TurnCell {
  readonly namespace: string;
  /** Undefined until something was sent to the cell. */
  readonly view: object | undefined;
  /** The current rules of the cell. */
  readonly rules: object | undefined;
  /** The rules that the cell waits for, because some groups are not filled. */
  readonly draft: RulesDraft | undefined;
}

/** Options of {@link CellTurns}. */
export interface CellTurnsOptions<T> {
  readonly clock: Clock;
  readonly groups: Pick<AddressGroups, "isSettled" | "fill">;
  readonly isFilled: (draft: RulesDraft) => boolean;
  /** Called when groups were filled. Publishes their changes before cells get rules that name them. */
  readonly publish: () => void;
  /** Computes the policy of the next cell. Then removes the cell from the queue, or lets it wait for groups. */
  readonly serve: (cell: T) => void;
}

/** The queue of cells whose policy must be computed. Until then nothing is sent to them. */
export class CellTurns<T extends TurnCell> {
  readonly #options: CellTurnsOptions<T>;
  readonly #waiting = new FairQueue<T>(({ rules }) => rules);
  /** Cells to which nothing was sent yet. They get every second turn, but not all turns, because a cell may reconnect as often as it likes. */
  readonly #new = new FairQueue<T>();
  #wasNew = false;
  /** Cells with unfilled groups. They get no turn until the groups are filled. */
  readonly #unfilled = new Set<T>();
  /** How much less time was spent on groups than on cells while both had work, milliseconds. One cell may take longer than a block. */
  #groupDeficitMs = 0;

  constructor(options: CellTurnsOptions<T>) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#new.size + this.#waiting.size + this.#unfilled.size === 0;
  }

  has(cell: T): boolean {
    return this.#new.has(cell) || this.#waiting.has(cell) || this.#unfilled.has(cell);
  }

  /** Adds a cell to the queue. */
  add(cell: T): void {
    this.#unfilled.delete(cell);
    (cell.view ? this.#waiting : this.#new).add(cell);
  }

  /** Lets a cell wait until the groups of its draft are filled, and then for its turn. */
  awaitGroups(cell: T): void {
    this.delete(cell);
    this.#unfilled.add(cell);
  }

  delete(cell: T): void {
    for (const cells of [this.#new, this.#waiting, this.#unfilled]) cells.delete(cell);
  }

  /**
   * Fills groups and serves cells until a time, or until there is nothing to do. Serves at least one cell. No change is applied in between,
   * so rules and groups show the same state of the cluster.
   */
  serve(untilMs: number): void {
    const { clock, groups } = this.#options;
    const isAfter = (ms: number): boolean => clock.monotonic() >= ms;
    let cells = 0;
    const isFull = (): boolean => cells >= cellsOfBlock || isAfter(untilMs);
    do {
      // Users decide how many groups there are. So filling them gets half of the time, and cells with filled groups get the other half.
      const begunMs = clock.monotonic();
      this.#fill(untilMs - (this.#groupDeficitMs > 0 ? 0 : blockMs / 2));
      const filledMs = clock.monotonic();
      let isServing = groups.isSettled || this.#groupDeficitMs <= 0;
      while (isServing) isServing = this.#serveOne() && ++cells < cellsOfBlock && !isAfter(untilMs);
      const moreMs = clock.monotonic() - filledMs - (filledMs - begunMs);
      this.#groupDeficitMs = groups.isSettled ? 0 : Math.max(0, this.#groupDeficitMs + moreMs);
    } while (this.#new.size + this.#waiting.size > 0 && !isFull());
    if (groups.isSettled) return;
    this.#fill(untilMs);
    // Groups may be outdated again at the next call, so cells must also be served in this one.
    if (this.#groupDeficitMs <= 0) this.#serveOne();
  }

  /** Fills groups until a time, for at least one step. Then queues cells whose groups are filled. */
  #fill(untilMs: number): void {
    const { clock, groups, isFilled, publish } = this.#options;
    for (const _ of groups.fill()) if (clock.monotonic() >= untilMs) break;
    publish();
    for (const cell of this.#unfilled) if (cell.draft && isFilled(cell.draft)) this.add(cell);
  }

  /** Serves the next cell. @returns false if no cell waits for its turn */
  #serveOne(): boolean {
    const { clock, serve } = this.#options;
    const isNew = this.#new.size > 0 && !(this.#wasNew && this.#waiting.size > 0);
    this.#wasNew = isNew;
    const turns = isNew ? this.#new : this.#waiting;
    const { next: cell } = turns;
    if (!cell) return false;
    const begunMs = clock.monotonic();
    serve(cell);
    turns.charge(cell.namespace, clock.monotonic() - begunMs);
    return true;
  }
}
