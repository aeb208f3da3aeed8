import { isDeepStrictEqual } from "node:util";
import { K8sError, type ApiClient } from "@kip/k8s-client";
import { isStandby, type Cell, type StandbyCell } from "../state/cell.ts";

/** A Cell as read from the API. */
export type StoredCell = Cell | StandbyCell;

/** An event of a watch of Cells. */
export interface CellEvent {
  readonly type: "changed" | "deleted";
  readonly cell: StoredCell;
}

/** The part of a patch or deletion that identifies the object. */
interface Precondition {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

interface Change extends Partial<Pick<Cell, "spec" | "status">> {
  readonly metadata?: Precondition & { readonly finalizers?: readonly string[] };
}

/**
 * An API server that only has Cells, with the rules that kip relies on: versions, preconditions, finalizers, one pod per Cell.
 */
export class FakeCellsApi {
  readonly cells = new Map<string, StoredCell>();
  /** Violations of rules that must always hold. */
  readonly mistakes: string[] = [];
  readonly watchers = new Set<(event: CellEvent) => void>();
  /** Called before a pod is written into a Cell. */
  beforeClaim: (() => Promise<void>) | undefined;
  /** Whether creations take effect without a response, and watches deliver nothing, until {@link FakeCellsApi.answerAgain}. */
  isSilent = false;
  readonly #undelivered: CellEvent[] = [];
  #version = 0;
  #uids = 0;

  /** A client, each of whose calls goes through `call`. */
  client(call: <T>(effect: () => T) => Promise<T>): ApiClient {
    const client = {
      create: (_path: string, cell: StoredCell) =>
        call(() => {
          const created = this.#create(cell);
          if (this.isSilent)
            throw new K8sError("K8S_UNAVAILABLE", "No answer", { retryable: true });
          return created;
        }),
      get: (path: string) => call(() => this.#get(path)),
      list: () => call(() => ({ metadata: {}, items: [...this.cells.values()] })),
      patch: async (path: string, change: Change) => {
        if (change.spec) await this.beforeClaim?.();
        return await call(() => this.#patch(path, change));
      },
      delete: (path: string, precondition: Precondition) =>
        call(() => this.#delete(path, precondition)),
    };
    return client as unknown as ApiClient; // the methods that are called
  }

  #create(cell: StoredCell): StoredCell {
    const { name } = cell.metadata;
    if (this.cells.has(name)) throw new K8sError("K8S_ALREADY_EXISTS", name);
    const uid = `uid-${++this.#uids}`;
    const creationTimestamp = new Date(Date.UTC(2030, 0, 1) + this.#uids * 1000).toISOString();
    return this.#store({ ...cell, metadata: { ...cell.metadata, uid, creationTimestamp } });
  }

  #get(path: string): StoredCell {
    const name = path.split("/cells/")[1]?.split("/")[0] ?? "";
    const cell = this.cells.get(name);
    if (!cell) throw new K8sError("K8S_NOT_FOUND", name);
    return cell;
  }

  #patch(path: string, { metadata = {}, spec, status }: Change): StoredCell {
    const cell = this.#get(path);
    this.#check(cell, metadata);
    const { finalizers = cell.metadata.finalizers } = metadata;
    const next = {
      ...cell,
      metadata: { ...cell.metadata, finalizers },
      spec: { ...cell.spec, ...spec },
      status: status ?? cell.status,
    } as StoredCell;
    // A real API server would also refuse this. Kip does not depend on it.
    if (!isStandby(cell) && !isDeepStrictEqual(next.spec, cell.spec))
      this.mistakes.push(`${cell.metadata.name} got a second pod`);
    if (next.metadata.deletionTimestamp !== undefined && finalizers?.length === 0)
      return this.#remove(next);
    return this.#store(next);
  }

  #delete(path: string, precondition: Precondition): StoredCell {
    const cell = this.#get(path);
    this.#check(cell, precondition);
    if (cell.metadata.finalizers?.length === 0) return this.#remove(cell);
    const deletionTimestamp = "2030-01-01T00:00:00Z";
    return this.#store({ ...cell, metadata: { ...cell.metadata, deletionTimestamp } });
  }

  #check({ metadata }: StoredCell, { uid, resourceVersion }: Precondition): void {
    const isOther = uid !== undefined && uid !== metadata.uid;
    const isOlder = resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion;
    if (isOther || isOlder) throw new K8sError("K8S_CONFLICT", metadata.name);
  }

  #store(cell: StoredCell): StoredCell {
    const resourceVersion = String(++this.#version);
    const stored = { ...cell, metadata: { ...cell.metadata, resourceVersion } } as StoredCell;
    this.cells.set(stored.metadata.name, stored);
    this.#notify({ type: "changed", cell: stored });
    return stored;
  }

  #remove(cell: StoredCell): StoredCell {
    this.cells.delete(cell.metadata.name);
    this.#notify({ type: "deleted", cell });
    return cell;
  }

  answerAgain(): void {
    this.isSilent = false;
    for (const event of this.#undelivered.splice(0)) this.#notify(event);
  }

  #notify(event: CellEvent): void {
    if (this.isSilent) return void this.#undelivered.push(event);
    for (const watcher of this.watchers) watcher(event);
  }
}
