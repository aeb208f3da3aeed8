import { defined, systemClock } from "@kip/base";
import {
  K8sError,
  isNotFound,
  isAlreadyExists,
  isConflict,
  ignoreNotFound,
  paths,
  type ApiClient,
  type KubeObject,
  type ObjectList,
  type Query,
} from "@kip/k8s-client";
import {
  cellFinalizer,
  cellName,
  isStandby,
  nodeLabel,
  type Cell,
  type CellClaim,
  type CellSpec,
  type CellStatus,
  type StandbyCell,
  type StandbySpec,
} from "../state/cell.ts";
import { cellCrd } from "./cell-crd.ts";
import { untilCrdIsGone } from "./crd-end.ts";
import { cellAnnotations, cellLabels, type Labels } from "./cell-metadata.ts";
import type { PodRef } from "../state/cell-state.ts";
import { readPodInApi, type PodInApi } from "./pod-in-api.ts";

/** How often a Cell is read again when another client writes it at the same time. */
const maxConflicts = 10;

/** Cells per list request. */
const pageSize = 500;

/** Reads and writes Cells. Every call is safe to repeat. */
export class CellStore {
  readonly #client: ApiClient;
  /** The newest known version of each Cell, by UID: that of this client's last write. */
  readonly #versions = new Map<string, string>();
  #installing: Promise<boolean> | undefined;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Installs or updates the CustomResourceDefinition. Resolves when it is usable. If it is being deleted, waits and installs it
   * again, unless it has Cells, which a kip has to end first.
   *
   * @throws the signal's reason
   */
  async ensureCrd(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const client = this.#client;
    while (!(await this.#installCrd())) {
      const cells = await ignoreNotFound(client.list(paths.cells(), { query: { limit: 1 } }));
      if ((cells?.items.length ?? 0) > 0) return;
      await untilCrdIsGone({ client, clock: systemClock, signal });
    }
  }

  /** Resolves with whether the resource is usable. It is not while it is being deleted. */
  async #installCrd(): Promise<boolean> {
    const path = paths.customResourceDefinitions(cellCrd.metadata.name);
    const options = { fieldManager: "kip", force: true };
    const { metadata } = await this.#client.patch<KubeObject>(path, cellCrd, "apply", options);
    if (metadata.deletionTimestamp !== undefined) return false;
    await this.#whenServed(() => this.#client.list(paths.cells(), { query: { limit: 1 } }));
    return true;
  }

  /**
   * A new resource is served some 100 ms after it was accepted. A changed one is served as before, then for a moment not at all.
   * No event announces that, so poll.
   */
  async #whenServed<T>(call: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await call();
      } catch (error) {
        const isEarly = isNotFound(error) || K8sError.is(error, "K8S_TOO_MANY_REQUESTS");
        if (!isEarly || attempt > 100) throw error;
        await systemClock.sleep(50);
      }
    }
  }

  /**
   * Writes the Cell of a pod, with the pod's labels ({@link cellLabels}). If an earlier process of kip wrote it, returns it
   * unchanged.
   *
   * @param signal gives it up while the request waits to be sent
   * @throws the signal's reason. This call has written nothing then
   */
  async create(spec: CellSpec, labels: Labels = {}, signal?: AbortSignal): Promise<Cell> {
    const name = cellName(spec.podRef.uid, spec.attempt);
    try {
      return this.#known(await this.#create<Cell>(newCell(name, spec, labels), signal));
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return await this.#client.get<Cell>(paths.cells(name));
    }
  }

  /** Writes a Cell that waits for its pod. Undefined if a pod has the Cell with this name. */
  async createStandby(spec: StandbySpec, name: string): Promise<StandbyCell | undefined> {
    try {
      return this.#known(await this.#create<StandbyCell>(newCell(name, spec, {})));
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const cell = await this.#client.get<Cell | StandbyCell>(paths.cells(name));
      return isStandby(cell) ? cell : undefined;
    }
  }

  /**
   * Installs the resource again if it was deleted while kip is running, because otherwise no pod could start. Deferrable: of
   * thousands of pods that come together, the first ones start before all have their Cells.
   */
  async #create<T>(cell: object, unsentSignal?: AbortSignal): Promise<T> {
    const options = { isDeferrable: true, unsentSignal };
    const create = async (): Promise<T> =>
      await this.#client.create<T>(paths.cells(), cell, options);
    try {
      return await create();
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#installing ??= this.#installCrd().finally(() => (this.#installing = undefined));
      await this.#installing;
      return await create();
    }
  }

  /**
   * Writes the pod and its labels into a standby Cell. Only succeeds if the Cell has not changed since it was read, so that two
   * pods cannot get it. Returns undefined if the Cell is no longer available, and the unchanged Cell if it already has this
   * pod.
   *
   * @throws an error that leaves the outcome open
   */
  async claim(
    seen: StandbyCell,
    claim: CellClaim,
    podLabels: Labels = {},
  ): Promise<Cell | undefined> {
    const { name, uid } = seen.metadata;
    const path = paths.cells(name);
    const labels = cellLabels(seen.spec.nodeName, podLabels);
    // Another version of kip may have written the Cell without them.
    const annotations = cellAnnotations;
    let cell: Cell | StandbyCell | undefined = seen;
    for (let conflicts = 0; ; conflicts++) {
      if (cell?.metadata.uid !== uid || cell.metadata.deletionTimestamp !== undefined)
        return undefined;
      // Another kip may have begun to end it.
      if (cell.status?.phase === "Terminating") return undefined;
      if (!isStandby(cell)) return cell.spec.podRef.uid === claim.podRef.uid ? cell : undefined;
      const { resourceVersion } = cell.metadata;
      try {
        const change = { metadata: { uid, resourceVersion, labels, annotations }, spec: claim };
        return this.#known(await this.#client.patch<Cell>(path, change, "merge"));
      } catch (error) {
        if (K8sError.is(error, "K8S_NOT_FOUND", "K8S_INVALID")) return undefined;
        if (!isConflict(error) || conflicts === maxConflicts) throw error;
        cell = await this.#read(path);
      }
    }
  }

  /**
   * Replaces the status. Also succeeds if the Cell is gone. Names the version that it replaces, so that a late write of a
   * killed kip cannot undo what the next one has written.
   */
  async writeStatus(cell: Cell | StandbyCell, status: CellStatus): Promise<void> {
    const { name, uid } = cell.metadata;
    const path = paths.cells(name);
    const whole = { ...originalStatus(cell.spec), ...status };
    let resourceVersion = this.#versions.get(uid) ?? cell.metadata.resourceVersion;
    for (let conflicts = 0; ; conflicts++) {
      const body = { metadata: { uid, resourceVersion }, status: whole };
      try {
        this.#known(await this.#client.patch<Cell>(paths.cells(name, "status"), body, "merge"));
        return;
      } catch (error) {
        if (isNotFound(error)) return this.#forget(uid);
        if (!isConflict(error) || conflicts === maxConflicts) throw error;
        // Another client changed it in between, or a response was lost.
        const seen = await this.#read(path);
        if (seen?.metadata.uid !== uid) return this.#forget(uid);
        ({ resourceVersion } = this.#known(seen).metadata);
      }
    }
  }

  /**
   * Requests the deletion of the Cell. Kip's finalizer keeps it until {@link CellStore.remove}. Also succeeds if it is gone.
   */
  async markDeleted(cell: Cell | StandbyCell): Promise<void> {
    await this.#delete(cell);
  }

  /**
   * Deletes the Cell together with kip's own finalizer, and keeps others' finalizers. Only call this when the instance is gone.
   *
   * @param options.isMarked whether its deletion was requested; if so, it is read first instead of written @default false
   */
  async remove(cell: Cell | StandbyCell, { isMarked = false } = {}): Promise<void> {
    const { name, uid } = cell.metadata;
    const path = paths.cells(name);
    let left = isMarked ? await this.#read(path) : await this.#delete(cell);
    // The API server has lost the request for the deletion, for example after a backup was restored.
    if (left?.metadata.uid === uid && left.metadata.deletionTimestamp === undefined)
      left = await this.#delete(left);
    for (let conflicts = 0; left?.metadata.uid === uid; conflicts++) {
      const { finalizers = [], resourceVersion } = left.metadata;
      if (!finalizers.includes(cellFinalizer)) break;
      const others = finalizers.filter((each) => each !== cellFinalizer);
      const change = { metadata: { uid, resourceVersion, finalizers: others } };
      try {
        await this.#client.patch(path, change, "merge");
        break;
      } catch (error) {
        if (isNotFound(error)) break;
        // Another client changed it in between.
        if (!isConflict(error) || conflicts === maxConflicts) throw error;
        left = await this.#read(path);
      }
    }
    this.#forget(uid);
  }

  /**
   * Asks for the deletion of a Cell; resolves with the Cell if its finalizers keep it. It names the version that it deletes: a
   * request that arrives late must not delete a Cell that the next kip has launched. The last attempt names none: a client that
   * writes the Cell all the time must not keep its machine.
   */
  async #delete({ metadata }: Cell | StandbyCell): Promise<Cell | StandbyCell | undefined> {
    const { name, uid } = metadata;
    const path = paths.cells(name);
    let resourceVersion = this.#versions.get(uid) ?? metadata.resourceVersion;
    for (let conflicts = 0; ; conflicts++) {
      try {
        const answer = await this.#client.delete<Partial<Cell>>(path, { uid, resourceVersion });
        return answer.kind === "Cell" ? this.#known(answer as Cell) : undefined; // otherwise a Status: it is deleted
      } catch (error) {
        if (isNotFound(error)) return undefined;
        if (!isConflict(error) || conflicts === maxConflicts) throw error;
        const seen = await this.#read(path);
        if (seen?.metadata.uid !== uid) return undefined;
        const isLast = conflicts + 1 === maxConflicts;
        resourceVersion = isLast ? undefined : this.#known(seen).metadata.resourceVersion;
      }
    }
  }

  #known<C extends Cell | StandbyCell>(cell: C): C {
    const { uid, resourceVersion } = cell.metadata;
    if (resourceVersion !== undefined) this.#versions.set(uid, resourceVersion);
    return cell;
  }

  #forget(uid: string): void {
    this.#versions.delete(uid);
  }

  async #read(path: string): Promise<Cell | StandbyCell | undefined> {
    try {
      return await this.#client.get<Cell>(path);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /**
   * Labels the node's Cells again that another client has taken the label from. Without it, kip does not see them, and their
   * machines would never be ended.
   *
   * @returns the Cells that did not have the node's label, among them those of all other nodes
   */
  async restoreLabels(nodeName: string): Promise<readonly (Cell | StandbyCell)[]> {
    const others = await this.#whenServed(() => this.list(`${nodeLabel}!=${nodeName}`));
    const labels = { [nodeLabel]: nodeName };
    for (const { metadata, spec } of others) {
      if (spec.nodeName !== nodeName) continue;
      const change = { metadata: { uid: metadata.uid, labels } };
      const path = paths.cells(metadata.name);
      await this.#whenServed(() => ignoreNotFound(this.#client.patch(path, change, "merge")));
    }
    return others;
  }

  /** The state of a Cell's pod in the API. */
  async readPod(podRef: PodRef): Promise<PodInApi> {
    return await readPodInApi(this.#client, podRef);
  }

  /**
   * The cells of all virtual nodes at one moment, read from the API and not from a cache. Reads parts, because decoding
   * thousands of Cells at once would block the event loop.
   *
   * @param labelSelector only returns Cells that match
   */
  async list(labelSelector?: string): Promise<readonly (Cell | StandbyCell)[]> {
    const cells: (Cell | StandbyCell)[] = [];
    let next: string | undefined;
    do {
      const query = defined({ labelSelector, limit: pageSize, continue: next });
      const page = await this.#listPart(query).catch((error: unknown) => {
        // The API server has forgotten the moment of the first part, so all Cells are read at once.
        if (next === undefined || !K8sError.is(error, "K8S_GONE")) throw error;
        cells.length = 0;
        return this.#listPart(defined({ labelSelector }));
      });
      cells.push(...page.items);
      next = page.metadata.continue === "" ? undefined : page.metadata.continue;
    } while (next !== undefined);
    return cells;
  }

  async #listPart(query: Query): Promise<ObjectList<Cell | StandbyCell>> {
    return await this.#client.list<Cell | StandbyCell>(paths.cells(), { query });
  }
}

/** Fields that the original wrote into a Cell's status, with its names. */
function originalStatus(spec: CellSpec | StandbySpec) {
  const { nodeName, launchType, instanceType, controllerID } = spec;
  const { namespace, name } = (spec as Partial<CellSpec>).podRef ?? {}; // a standby cell has none
  const onDemand = launchType === "spot" ? "Spot" : "On-Demand";
  return defined({
    podName: name,
    podNamespace: namespace,
    node: nodeName,
    launchType: launchType === "dedicated" ? "Dedicated" : onDemand,
    instanceType,
    controllerID,
  });
}

/** A new Cell. */
function newCell<S extends CellSpec | StandbySpec>(name: string, spec: S, podLabels: Labels) {
  const metadata = {
    name,
    labels: cellLabels(spec.nodeName, podLabels),
    annotations: cellAnnotations,
    finalizers: [cellFinalizer],
  };
  return { apiVersion: "kip.elotl.co/v1beta1", kind: "Cell", metadata, spec } as const;
}
