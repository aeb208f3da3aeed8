import type { Cell } from "./cell.ts";

/** The Cells of each pod, as the API has them: looked up for each pod, of which there may be thousands. */
export class CellsByPod {
  /** By the pod's UID; no list is empty. */
  readonly #cells = new Map<string, readonly Cell[]>();

  /** A Cell that has a pod was added or changed. */
  seen(cell: Cell): void {
    this.#cells.set(cell.spec.podRef.uid, [...this.#others(cell), cell]);
  }

  /** A Cell that had a pod was deleted. */
  gone(cell: Cell): void {
    const others = this.#others(cell);
    if (others.length > 0) this.#cells.set(cell.spec.podRef.uid, others);
    else this.#cells.delete(cell.spec.podRef.uid);
  }

  /** In no order. */
  of(podUid: string): readonly Cell[] {
    return this.#cells.get(podUid) ?? [];
  }

  #others({ metadata, spec }: Cell): readonly Cell[] {
    return this.of(spec.podRef.uid).filter((each) => each.metadata.uid !== metadata.uid);
  }
}
