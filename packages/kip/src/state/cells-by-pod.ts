import type { Cell } from "./cell.ts";

/** An index of the Cells in the API by pod. They are looked up for each pod, and there may be thousands. */
export class CellsByPod {
  /** By pod UID. No list is empty. */
  readonly #cells = new Map<string, readonly Cell[]>();

  /** Call this when a Cell that has a pod was added or changed. */
  seen(cell: Cell): void {
    this.#cells.set(cell.spec.podRef.uid, [...this.#others(cell), cell]);
  }

  /** Call this when a Cell that had a pod was deleted. */
  gone(cell: Cell): void {
    const others = this.#others(cell);
    if (others.length > 0) this.#cells.set(cell.spec.podRef.uid, others);
    else this.#cells.delete(cell.spec.podRef.uid);
  }

  /** Unordered. */
  of(podUid: string): readonly Cell[] {
    return this.#cells.get(podUid) ?? [];
  }

  #others({ metadata, spec }: Cell): readonly Cell[] {
    return this.of(spec.podRef.uid).filter((each) => each.metadata.uid !== metadata.uid);
  }
}
