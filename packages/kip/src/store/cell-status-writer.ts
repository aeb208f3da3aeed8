import { backoffDelay, type Clock, type Logger } from "@kip/base";
import { isHeldUp } from "../cell/cell-conditions.ts";
import type { CellStore } from "./cell-store.ts";
import type { Cell, CellStatus, StandbyCell } from "../state/cell.ts";

interface Pending {
  newest: { readonly cell: Cell | StandbyCell; readonly status: CellStatus } | undefined;
  work: Promise<void>;
}

interface Note {
  cell: Cell | StandbyCell;
  status: CellStatus;
  /** Monotonic time, milliseconds. */
  readonly dueAt: number;
  /** Aborts if the status need not be written, because a newer one was, or because the Cell is gone. */
  readonly settled: AbortController;
  /** How often its write has failed. */
  readonly failures: number;
}

/** What {@link CellStatusWriter} works with. */
export interface CellStatusWriterOptions {
  readonly store: Pick<CellStore, "writeStatus">;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How long a status that shows a problem or will last waits for a newer one before it is written, milliseconds. */
const noteMs = 1000;

/**
 * The same for a status that only lasts until the next step of a start or a stop. It is written together with the next one, if
 * that comes in time.
 */
const transientMs = 10_000;

/** The write of a noted status is repeated until it succeeds, because it may be the last status of its Cell for hours. */
const failureBackoff = { initialMs: 1000, maxMs: 60_000 };

/**
 * The reason with which notes are cancelled. All notes share it, because creating an error costs more than starting the note's
 * timer.
 */
const settled = new Error("A newer status was written, or the Cell is gone");

/** Writes the statuses of cells: one request per cell at a time, and always the newest status. */
export class CellStatusWriter {
  readonly #options: CellStatusWriterOptions;
  readonly #pending = new Map<string, Pending>();
  readonly #notes = new Map<string, Note>();
  /** Noted statuses that are being written and are still the newest. */
  readonly #underWay = new Map<string, Note>();
  /** The status of each Cell in the API, if this process wrote it. */
  readonly #written = new WeakMap<Cell | StandbyCell, CellStatus>();
  #isEnded = false;

  constructor(options: CellStatusWriterOptions) {
    this.#options = options;
  }

  /** Schedules this status of a Cell that is being deleted to be written after ten seconds, if the Cell still exists then. */
  noteEnd(cell: Cell | StandbyCell, status: CellStatus): void {
    this.forget(cell);
    this.#note(cell, status, transientMs);
  }

  /**
   * Schedules this status, or a newer one, to be written within ten seconds, or within a second if the API shows a problem that
   * is over. A failure is logged, and the write is repeated.
   */
  noteTransient(cell: Cell | StandbyCell, status: CellStatus): void {
    const isOutdated = isHeldUp(this.#written.get(cell) ?? cell.status);
    this.#note(cell, status, isOutdated ? noteMs : transientMs);
  }

  /** Schedules this status, or a newer one, to be written within a second. A failure is logged, and the write is repeated. */
  note(cell: Cell | StandbyCell, status: CellStatus): void {
    this.#note(cell, status, noteMs);
  }

  #note(cell: Cell | StandbyCell, status: CellStatus, withinMs: number, failures = 0): void {
    const { uid } = cell.metadata;
    const known = this.#notes.get(uid);
    const dueAt = this.#options.clock.monotonic() + withinMs;
    if (known && known.dueAt <= dueAt) {
      // A pod may have taken a standby cell in between.
      known.cell = cell;
      known.status = status;
      return;
    }
    this.forget(cell);
    const note: Note = { cell, status, dueAt, settled: new AbortController(), failures };
    this.#notes.set(uid, note);
    void this.#writeLater(note, withinMs);
  }

  /** Call this when the Cell is gone, so that its statuses are no longer written. */
  forget({ metadata: { uid } }: Cell | StandbyCell): void {
    this.#notes.get(uid)?.settled.abort(settled);
    this.#notes.delete(uid);
    this.#underWay.delete(uid);
  }

  /**
   * For the end of kip: writes noted statuses at once, and waits for pending writes. Failures are logged, and no write is
   * repeated from then on.
   */
  async flush(): Promise<void> {
    this.#isEnded = true;
    const underWay = [...this.#pending.values()].map(({ work }) => work);
    const noted = [...this.#notes.values()].map(async (note) => await this.#writeNote(note));
    // The caller of each write handles its failure.
    await Promise.allSettled([...underWay, ...noted]);
  }

  /** Resolves when this status, or a newer one, is written. @throws the error of the failed write */
  async write(cell: Cell | StandbyCell, status: CellStatus): Promise<void> {
    this.forget(cell);
    const { uid } = cell.metadata;
    const known = this.#pending.get(uid);
    if (known) {
      const isFirst = known.newest === undefined;
      known.newest = { cell, status };
      if (isFirst) {
        // The caller of the previous write handles its failure.
        known.work = known.work.catch(() => {}).then(() => this.#writeNewest(uid, known));
      }
      return await known.work;
    }
    const pending: Pending = { newest: { cell, status }, work: Promise.resolve() };
    this.#pending.set(uid, pending);
    pending.work = this.#writeNewest(uid, pending);
    await pending.work;
  }

  async #writeLater(note: Note, waitMs: number): Promise<void> {
    try {
      await this.#options.clock.sleep(waitMs, note.settled.signal);
    } catch {
      return; // settled
    }
    await this.#writeNote(note);
  }

  async #writeNote(note: Note): Promise<void> {
    const { cell, status, failures } = note;
    const { uid } = cell.metadata;
    const written = this.write(cell, status);
    this.#underWay.set(uid, note);
    try {
      await written;
    } catch (error) {
      this.#options.logger.warn("Could not write the status of a cell", { err: error });
      if (this.#underWay.get(uid) !== note || this.#isEnded) return;
      this.#note(cell, status, backoffDelay(failures, failureBackoff, error), failures + 1);
    } finally {
      if (this.#underWay.get(uid) === note) this.#underWay.delete(uid);
    }
  }

  async #writeNewest(uid: string, pending: Pending): Promise<void> {
    const { newest } = pending;
    pending.newest = undefined;
    try {
      if (!newest) return;
      await this.#options.store.writeStatus(newest.cell, newest.status);
      this.#written.set(newest.cell, newest.status);
    } finally {
      if (pending.newest === undefined) this.#pending.delete(uid);
    }
  }
}
