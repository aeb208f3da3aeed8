import { randomUUID } from "node:crypto";
import { backoffDelay, defined, pause, untilAborted, type Clock, type Logger } from "@kip/base";
import type { AgentClient } from "@kip/agent-api";
import type { CloudDriver } from "@kip/cloud";
import type { StandbySteps } from "../cell/cell-step.ts";
import type { CellLimits } from "../cell/observe-cell.ts";
import type { StandbyClaims } from "../cell/steps/step-context.ts";
import type { DumpedWorker } from "../inspect/node-dump.ts";
import { ProviderError } from "../errors.ts";
import type { CellChooser } from "../selection/cell-chooser.ts";
import {
  fits,
  largerDisk,
  poolKey,
  type StandbyPool,
  type WantedMachine,
} from "../selection/standby-spec.ts";
import {
  isStandby,
  standbyName,
  type Cell,
  type StandbyCell,
  type StandbySpec,
} from "../state/cell.ts";
import type { CellStore } from "../store/cell-store.ts";
import { planPools, type PresentCell, type WantedCells } from "./pool-plan.ts";
import { PoolPauses } from "./pool-pauses.ts";
import { StandbyMetrics } from "./standby-metrics.ts";
import { StandbyWorker } from "./standby-worker.ts";

/** How often to compare the pools without an event, milliseconds. A pool's image may have a newer version. */
const lookAgainMs = 60_000;
/** Pauses after a failed comparison, milliseconds. */
const failureBackoff = { initialMs: 1000, maxMs: 60_000 };

/** Options of {@link StandbyCells}. */
export interface StandbyOptions {
  readonly store: Pick<CellStore, "createStandby" | "claim">;
  readonly chooser: Pick<CellChooser, "standbySpec">;
  readonly driver: Pick<CloudDriver, "onTerminated" | "onInterruption">;
  /** The configured pools, as they are now. */
  readonly pools: () => readonly StandbyPool[];
  readonly limits: CellLimits;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Waiter {
  readonly wanted: WantedMachine;
  readonly createdAt: number;
  readonly wake: () => void;
}

/**
 * The standby cells of one virtual node. Keeps the configured number, and assigns them to pods.
 *
 * Invariants:
 * - The Cell objects are the only record. A cell has a pod from the moment when its Cell names the pod, which is written once.
 * - A cell that is being claimed is not ended. If a claim seems to fail but was written, the pod may have two cells. One of
 *   them is then ended.
 * - Cells that no pool needs are ended, whichever process created them.
 */
export class StandbyCells implements StandbyClaims {
  readonly #options: StandbyOptions;
  /** Workers of standby cells, by Cell UID. */
  readonly #workers = new Map<string, StandbyWorker>();
  /** Workers of additional Cells of pods that have one already, by Cell UID. */
  readonly #strays = new Map<string, StandbyWorker<Cell>>();
  /** Workers of cells that are being claimed. */
  readonly #reserved = new Set<StandbyWorker>();
  /** Connections to claimed cells that their pods' workers have not taken yet, by UID. */
  readonly #handed = new Map<string, AgentClient>();
  /** UIDs of Cells that were claimed or deleted. The watch lags behind. */
  readonly #past = new Set<string>();
  readonly #unclaimable = new WeakSet<StandbyWorker>();
  /** Pods that wait for a machine, and may take a standby cell instead. */
  readonly #waiters = new Set<Waiter>();
  /** Workers of ready cells that were offered to a waiting pod since the last comparison. */
  #offered = new WeakSet<StandbyWorker>();
  /** Workers of cells whose machines the cloud reclaims, if the notice came while the cell was being claimed. */
  readonly #doomed = new WeakSet<StandbyWorker>();
  /**
   * Cells that may have been written although no response came: pool keys by name. They are written again with the same name.
   */
  readonly #unanswered = new Map<string, string>();
  readonly #pauses: PoolPauses;
  readonly #metrics = new StandbyMetrics();
  readonly #reported = new Set<string>();
  readonly #subscriptions = new DisposableStack();
  readonly #stopped = new AbortController();
  #waking = new AbortController();
  #steps: StandbySteps | undefined;
  #looking: Promise<void> | undefined;
  /** The pools as last resolved. */
  #wantedCells: readonly WantedCells[] = [];

  constructor(options: StandbyOptions) {
    this.#options = options;
    this.#pauses = new PoolPauses(options.clock);
  }

  /** Takes over the existing standby cells, and fills the pools in the background. */
  start(steps: StandbySteps, cells: readonly (Cell | StandbyCell)[]): void {
    this.#steps = steps;
    const { driver } = this.#options;
    for (const cell of cells) this.cellSeen(cell);
    const stops = [
      driver.onTerminated(({ token }) => {
        this.#workers.get(token)?.instanceEnded();
        this.#strays.get(token)?.instanceEnded();
      }),
      driver.onInterruption(({ instance }) => this.#interrupted(instance.token)),
    ];
    for (const stop of stops) this.#subscriptions.defer(stop);
    this.#looking = this.#lookUntilStopped();
  }

  get isUsed(): boolean {
    return this.#workers.size > 0 || this.#options.pools().length > 0;
  }

  /** Call this when the configuration has changed. */
  reconfigured(): void {
    this.#reported.clear();
    this.#pauses.clear();
    this.#wake();
  }

  /** Call this when a Cell was added or changed in the API. */
  cellSeen(cell: Cell | StandbyCell): void {
    const { uid } = cell.metadata;
    if (!isStandby(cell)) {
      this.#release(uid);
      this.#strays.get(uid)?.cellSeen(cell);
      return;
    }
    const known = this.#workers.get(uid);
    if (known) {
      known.cellSeen(cell);
      return this.#offer(this.#waiters);
    }
    this.#adopt(cell);
    // There may be too many now.
    this.#wake();
  }

  /** Call this when a Cell was deleted from the API. */
  cellGone({ metadata }: Cell | StandbyCell): void {
    this.#workers.get(metadata.uid)?.cellGone();
    this.#strays.get(metadata.uid)?.cellGone();
    this.#past.delete(metadata.uid);
  }

  /** Ends a Cell whose pod has another one. Two processes of kip may each have claimed one for it. */
  endStray(cell: Cell): void {
    const { uid } = cell.metadata;
    if (!this.#steps || this.#strays.has(uid)) return;
    const worker = this.#newWorker(cell, this.#steps);
    this.#strays.set(uid, worker);
    worker.end();
    void worker.settled.then(() => this.#strays.delete(uid));
  }

  async claim(wanted: WantedMachine): Promise<Cell | undefined> {
    const { podRef, attempt, restartCounts, ended } = wanted.spec;
    for (let worker = this.#readyFor(wanted); worker; worker = this.#readyFor(wanted)) {
      this.#reserved.add(worker);
      try {
        const disk = largerDisk(wanted, worker.cell.spec);
        const claim = { ...defined({ podRef, attempt, restartCounts, ended }), ...disk };
        const cell = await this.#options.store.claim(worker.cell, claim, wanted.labels);
        if (cell) return this.#claimed(worker, cell);
        this.#unclaimable.add(worker);
      } finally {
        this.#reserved.delete(worker);
        if (this.#doomed.has(worker)) this.#interrupted(worker.cell.metadata.uid);
      }
    }
    return undefined;
  }

  async untilReady(wanted: WantedMachine, createdAt: number, signal: AbortSignal): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const waiter: Waiter = { wanted, createdAt, wake: ready.resolve };
    this.#waiters.add(waiter);
    this.#offer([waiter]);
    try {
      await untilAborted(ready.promise, signal);
    } finally {
      this.#waiters.delete(waiter);
    }
  }

  /** Wakes the oldest of the waiting pods for each cell that is ready and was not offered to a pod before. */
  #offer(waiters: Iterable<Waiter>): void {
    for (const worker of this.#workers.values()) {
      if (!this.#isFree(worker) || this.#offered.has(worker)) continue;
      const [oldest] = [...waiters]
        .filter((each) => this.#waiters.has(each) && fits(each.wanted, worker.cell.spec))
        .sort((a, b) => a.createdAt - b.createdAt);
      if (!oldest) continue;
      this.#offered.add(worker);
      this.#waiters.delete(oldest);
      oldest.wake();
    }
  }

  /** Whether a pod can take the cell. */
  #isFree(worker: StandbyWorker): boolean {
    return worker.isReady && !this.#reserved.has(worker) && !this.#unclaimable.has(worker);
  }

  missed(wanted: WantedMachine): void {
    if (!this.isUsed) return;
    const isPooled = this.#wantedCells.some(({ spec }) => fits(wanted, spec));
    this.#metrics.count(isPooled ? "miss" : "unfit");
  }

  takeAgent(cellUid: string): AgentClient | undefined {
    const client = this.#handed.get(cellUid);
    this.#handed.delete(cellUid);
    return client;
  }

  /** The workers of all cells without pods. */
  get workers(): readonly Pick<StandbyWorker, "doubtful" | "cloudAsked" | "dump" | "stop">[] {
    return [...this.#workers.values(), ...this.#strays.values()];
  }

  /** What kip is doing for each standby cell, for people. */
  dump(): readonly DumpedWorker[] {
    return this.workers.map((worker) => worker.dump());
  }

  /** Metrics of the standby cells. */
  metrics(): ReturnType<StandbyMetrics["families"]> {
    return this.#metrics.families([...this.#workers.values()]);
  }

  /** Ends the work. The cells stay as they are. */
  async stop(): Promise<void> {
    this.#subscriptions.dispose();
    this.#stopped.abort();
    await this.#looking;
    await Promise.all(this.workers.map((worker) => worker.stop()));
    await Promise.all([...this.#handed.values()].map((client) => client[Symbol.asyncDispose]()));
  }

  /** The oldest cell that is ready and fits. */
  #readyFor(wanted: WantedMachine): StandbyWorker | undefined {
    const [oldest] = [...this.#workers.values()]
      .filter((worker) => this.#isFree(worker) && fits(wanted, worker.cell.spec))
      .sort((a, b) => Date.parse(createdAt(a)) - Date.parse(createdAt(b)));
    return oldest;
  }

  #claimed(worker: StandbyWorker, cell: Cell): Cell {
    this.#release(cell.metadata.uid);
    this.#pauses.end(poolKey(worker.cell.spec));
    this.#metrics.count("hit");
    return cell;
  }

  /** Call this when a pod has the cell. Its worker takes over. */
  #release(uid: string): void {
    const worker = this.#workers.get(uid);
    if (!worker) return;
    this.#workers.delete(uid);
    this.#past.add(uid);
    const client = worker.release();
    if (client) {
      this.#handed.set(uid, client);
      void client.closed.then(() => this.#handed.delete(uid));
    }
    this.#wake();
  }

  /** A cell that the cloud reclaims is no longer available for pods. */
  #interrupted(token: string): void {
    const worker = this.#workers.get(token);
    if (!worker) return;
    // The result of the claim decides: either the pod gets the notice, or the cell is ended.
    if (this.#reserved.has(worker)) return void this.#doomed.add(worker);
    worker.end();
    this.#wake();
  }

  #adopt(cell: StandbyCell): void {
    const { uid } = cell.metadata;
    if (!this.#steps || this.#past.has(uid) || this.#workers.has(uid)) return;
    const worker = this.#newWorker(cell, this.#steps);
    this.#workers.set(uid, worker);
    this.#unanswered.delete(cell.metadata.name);
    void worker.settled.then(() => {
      this.#workers.delete(uid);
      this.#past.add(uid);
      if (worker.wasLost) this.#pauses.lost(poolKey(cell.spec));
      this.#wake();
    });
  }

  #newWorker<C extends Cell | StandbyCell>(cell: C, steps: StandbySteps): StandbyWorker<C> {
    const { limits, clock, logger } = this.#options;
    return new StandbyWorker({ cell, steps, limits, clock, logger });
  }

  #wake(): void {
    this.#waking.abort();
  }

  async #lookUntilStopped(): Promise<void> {
    const { clock, logger } = this.#options;
    const { signal } = this.#stopped;
    let failures = 0;
    while (!signal.aborted) {
      this.#waking = new AbortController();
      try {
        const againMs = await this.#look();
        failures = 0;
        await pause(againMs, clock, AbortSignal.any([signal, this.#waking.signal]));
      } catch (error) {
        if (signal.aborted) return;
        logger.warn("Could not look after the standby cells", { err: error });
        await pause(backoffDelay(failures++, failureBackoff, error), clock, signal);
      }
    }
  }

  /** Ends superfluous cells and creates missing ones. @returns milliseconds until the next comparison */
  async #look(): Promise<number> {
    // The pod that a cell was offered to may be gone.
    this.#offered = new WeakSet();
    this.#offer(this.#waiters);
    const wanted = await this.#wanted();
    this.#wantedCells = wanted;
    const { end, create } = planPools(wanted, this.#present());
    for (const uid of end) this.#workers.get(uid)?.end();
    const pauseOf = (key: string): number => this.#pauses.leftMs(key);
    const due = create.filter((spec) => pauseOf(poolKey(spec)) <= 0);
    const created = await Promise.allSettled(due.map(async (spec) => await this.#create(spec)));
    for (const each of created) if (each.status === "rejected") throw each.reason;
    const pauses = create.map((spec) => pauseOf(poolKey(spec))).filter((ms) => ms > 0);
    return Math.min(lookAgainMs, ...pauses);
  }

  async #create(spec: StandbySpec): Promise<void> {
    const key = poolKey(spec);
    const [known] = [...this.#unanswered].find(([, each]) => each === key) ?? [];
    const name = known ?? standbyName(randomUUID());
    this.#unanswered.delete(name); // others are created at the same time
    try {
      const cell = await this.#options.store.createStandby(spec, name);
      if (cell) this.#adopt(cell);
    } catch (error) {
      // It may have been written in spite of the error, and the watch may lag behind.
      this.#unanswered.set(name, key);
      throw error;
    }
  }

  async #wanted(): Promise<readonly WantedCells[]> {
    const { chooser, pools, logger } = this.#options;
    const wanted: WantedCells[] = [];
    for (const pool of pools().filter(({ count }) => count > 0)) {
      try {
        wanted.push({ spec: await chooser.standbySpec(pool), count: pool.count });
      } catch (error) {
        // No other failure may end the pool's cells.
        if (!ProviderError.is(error, "STANDBY_POOL_INVALID")) throw error;
        if (!this.#reported.has(error.message))
          logger.warn("Cannot fill a pool of standby cells", { err: error });
        this.#reported.add(error.message);
      }
    }
    return wanted;
  }

  #present(): readonly PresentCell[] {
    return [...this.#workers].flatMap(([uid, worker]) =>
      worker.isEnding
        ? []
        : {
            uid,
            spec: worker.cell.spec,
            createdAt: createdAt(worker),
            isReserved: this.#reserved.has(worker),
          },
    );
  }
}

function createdAt({ cell }: StandbyWorker): string {
  return cell.metadata.creationTimestamp ?? "";
}
