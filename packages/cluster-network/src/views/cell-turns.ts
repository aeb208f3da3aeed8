import type { Clock } from "@kip/base";
import type { AddressGroups } from "../policies/address-groups.ts";
import { FairQueue } from "./fair-queue.ts";
import type { RulesDraft } from "./rules-drafts.ts";

/** The length of a block of work, milliseconds. After it, other work of kip's process has its turn. */
export const blockMs = 10;

/** How many cells are sent a change in one block at most: each change has to be encrypted, too. */
export const cellsOfBlock = 64;

/** A cell that may wait for its policy. */
export interface TurnCell {
  readonly namespace: string;
  /** Undefined until the cell has been sent something. */
  readonly view: object | undefined;
  /** The rules that it has. */
  readonly rules: object | undefined;
  /** The rules that it waits for, as some groups are not filled. */
  readonly draft: RulesDraft | undefined;
}

/** What {@link CellTurns} needs. */
export interface CellTurnsOptions<T> {
  readonly clock: Clock;
  readonly groups: Pick<AddressGroups, "isSettled" | "fill">;
  readonly isFilled: (draft: RulesDraft) => boolean;
  /** Is called when groups have been filled: what has changed of them is published before cells get rules that name them. */
  readonly publish: () => void;
  /** Finds the policy of a cell whose turn it is, and takes the cell from the turns, or has it wait for groups. */
  readonly serve: (cell: T) => void;
}

/** Cells that get nothing before their policy is computed, and which of them is next. */
export class CellTurns<T extends TurnCell> {
  readonly #options: CellTurnsOptions<T>;
  readonly #waiting = new FairQueue<T>(({ rules }) => rules);
  /** Cells that have been sent nothing yet. They have every other turn, not all of them, as a cell may connect as often as it likes. */
  readonly #new = new FairQueue<T>();
  #wasNew = false;
  /** Cells whose groups are not filled. They have no turn until these are. */
  readonly #unfilled = new Set<T>();
  /** How much less time groups have had than cells while both had work, milliseconds: one cell may take longer than a block. */
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

  /** Has a cell wait for its turn. */
  add(cell: T): void {
    this.#unfilled.delete(cell);
    (cell.view ? this.#waiting : this.#new).add(cell);
  }

  /** Has a cell wait until the groups of its draft are filled, and then for its turn. */
  awaitGroups(cell: T): void {
    this.delete(cell);
    this.#unfilled.add(cell);
  }

  delete(cell: T): void {
    for (const cells of [this.#new, this.#waiting, this.#unfilled]) cells.delete(cell);
  }

  /**
   * Fills groups and gives cells their turns, until a time or until there is nothing to do. One cell has its turn in any case. No change
   * comes in between, so rules and groups show the same state of the cluster.
   */
  serve(untilMs: number): void {
    const { clock, groups } = this.#options;
    const isAfter = (ms: number): boolean => clock.monotonic() >= ms;
    let cells = 0;
    const isFull = (): boolean => cells >= cellsOfBlock || isAfter(untilMs);
    do {
      // Users decide how many groups there are. Filling them gets half of the time, and cells that need none of them the other half.
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
    // Groups may be out of date again by the next call, so cells must get turns in this one, too.
    if (this.#groupDeficitMs <= 0) this.#serveOne();
  }

  /** Fills groups until a time, for a step at least, and has cells whose groups are filled wait for their turns. */
  #fill(untilMs: number): void {
    const { clock, groups, isFilled, publish } = this.#options;
    for (const _ of groups.fill()) if (clock.monotonic() >= untilMs) break;
    publish();
    for (const cell of this.#unfilled) if (cell.draft && isFilled(cell.draft)) this.add(cell);
  }

  /** @returns false if no cell waits for its turn */
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
