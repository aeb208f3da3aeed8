import { hasCode, systemClock } from "@kip/base";
import { paths, type ApiClient } from "@kip/k8s-client";
import {
  cellFinalizer,
  cellName,
  nodeLabel,
  type Cell,
  type CellSpec,
  type CellStatus,
} from "./cell.ts";
import { cellCrd } from "./cell-crd.ts";

/** Reads and writes Cells. Every call may be repeated. */
export class CellStore {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Installs or updates the CustomResourceDefinition; resolves when it may be used. */
  async ensureCrd(): Promise<void> {
    const path = paths.customResourceDefinitions(cellCrd.metadata.name);
    await this.#client.patch(path, cellCrd, "apply", { fieldManager: "kip", force: true });
    await this.#untilServed();
  }

  /** A new resource is served some 100 ms after it was accepted, and no event says when: ask for it. */
  async #untilServed(): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#client.list(paths.cells(), { query: { limit: 1 } });
        return;
      } catch (error) {
        if (!hasCode(error, "K8S_NOT_FOUND") || attempt > 100) throw error;
        await systemClock.sleep(50);
      }
    }
  }

  /**
   * Writes the Cell of a pod. If it is there already, from an earlier life of kip, that one is
   * returned as it is.
   */
  async create(spec: CellSpec): Promise<Cell> {
    const name = cellName(spec.podRef.uid, spec.attempt);
    const cell = {
      apiVersion: "kip.elotl.co/v1beta1",
      kind: "Cell",
      metadata: { name, labels: { [nodeLabel]: spec.nodeName }, finalizers: [cellFinalizer] },
      spec,
    } satisfies Cell;
    try {
      return await this.#client.create<Cell>(paths.cells(), cell);
    } catch (error) {
      if (!hasCode(error, "K8S_ALREADY_EXISTS")) throw error;
      return await this.#client.get<Cell>(paths.cells(name));
    }
  }

  /** Replaces the status; succeeds too if the Cell is gone. */
  async writeStatus(cell: Cell, status: CellStatus): Promise<void> {
    const path = paths.cells(cell.metadata.name, "status");
    await ignoreGone(
      this.#client.patch(path, { metadata: { uid: cell.metadata.uid }, status }, "merge"),
    );
  }

  /** Deletes the Cell for good. Only to be called when its instance is gone. */
  async remove(cell: Cell): Promise<void> {
    const path = paths.cells(cell.metadata.name);
    await ignoreGone(
      this.#client.patch(path, { metadata: { uid: cell.metadata.uid, finalizers: null } }, "merge"),
    );
    await ignoreGone(this.#client.delete(path, { uid: cell.metadata.uid ?? "" }));
  }

  /** The cells of all virtual nodes, read from the API itself and not from a cache. */
  async list(): Promise<readonly Cell[]> {
    return (await this.#client.list<Cell>(paths.cells())).items;
  }
}

/** A Cell that is gone, or has been replaced by one with another UID, needs no more writing. */
async function ignoreGone(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!hasCode(error, "K8S_NOT_FOUND", "K8S_CONFLICT")) throw error;
  }
}
