import type { CellStore } from "./cell-store.ts";
import type { Cell, CellStatus } from "../state/cell.ts";

interface Pending {
  newest: { readonly cell: Cell; readonly status: CellStatus } | undefined;
  work: Promise<void>;
}

/** Writes the statuses of cells: one request per cell at a time, and always the newest status. */
export class CellStatusWriter {
  readonly #store: Pick<CellStore, "writeStatus">;
  readonly #pending = new Map<string, Pending>();

  constructor(store: Pick<CellStore, "writeStatus">) {
    this.#store = store;
  }

  /** Resolves when this status, or a newer one, is written. @throws as the write that failed */
  async write(cell: Cell, status: CellStatus): Promise<void> {
    const { uid } = cell.metadata;
    const known = this.#pending.get(uid);
    if (known) {
      const isFirst = known.newest === undefined;
      known.newest = { cell, status };
      if (isFirst) {
        // The caller of the write before sees its failure.
        known.work = known.work.catch(() => {}).then(() => this.#writeNewest(uid, known));
      }
      return await known.work;
    }
    const pending: Pending = { newest: { cell, status }, work: Promise.resolve() };
    this.#pending.set(uid, pending);
    pending.work = this.#writeNewest(uid, pending);
    await pending.work;
  }

  async #writeNewest(uid: string, pending: Pending): Promise<void> {
    const { newest } = pending;
    pending.newest = undefined;
    try {
      if (newest) await this.#store.writeStatus(newest.cell, newest.status);
    } finally {
      if (pending.newest === undefined) this.#pending.delete(uid);
    }
  }
}
