import { randomUUID } from "node:crypto";
import {
  errorText,
  every,
  thisProcess,
  untilAborted,
  watchOrPoll,
  type Clock,
  type Logger,
} from "@kip/base";
import { CloudError, type Instance, type LaunchRequest } from "@kip/cloud";
import type { MachineFiles } from "../machine/machine-store.ts";
import { verdictFor, verdictsFor, type Resources, type Wait } from "./admission-plan.ts";
import { describeWait, isWorthReporting, refusalBehind } from "./launch-wait.ts";
import { untilUp } from "./start-phase.ts";
import { startingCount, Tickets, waiting, type Ticket } from "./tickets.ts";

/** Longest wait in the queue, milliseconds. The launch's user data contains an identity that expires. */
const longestWaitMs = 60 * 60 * 1000;
/**
 * How often waiting launches check again without an event, milliseconds. Other programs on the host release memory and disk
 * space without one.
 */
const recheckMs = 15_000;

/** Options of {@link Admission}. */
export interface AdmissionOptions {
  readonly stateDir: string;
  /** Folder with one folder per machine. A change in it may mean free resources. */
  readonly machinesDir: string;
  /** How many machines may be starting at the same time. */
  readonly startsAtOnce: number;
  /** The resources that are left for more machines. */
  readonly readRoom: () => Promise<Resources>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Thrown if it is not the launch's turn. */
class NotAdmittedError extends Error {
  readonly verdict: Wait;
  readonly refusal: CloudError;

  constructor(verdict: Wait, refusal: CloudError) {
    super(refusal.message);
    this.verdict = verdict;
    this.refusal = refusal;
  }
}

/** A launch in the queue, or its machine while that is starting. */
export interface Turn {
  /**
   * Asks whether the launch may start. If so, it counts as starting until its machine is up. Callers hold the lock for all
   * machines, and add the machine's record before they release it.
   *
   * @param refusal the error if there is not enough even without older requests
   */
  take(
    machineId: string,
    needs: Resources,
    room: Resources,
    refusal: () => CloudError | undefined,
  ): Promise<void>;
  /** Call this when the machine is running. This then finds out when it is up. */
  isRunning(files: MachineFiles, startedFrom: Instance["startedFrom"]): void;
}

interface Waiter {
  readonly key: string;
  readonly wake: () => void;
  readonly report: (verdict: Wait) => void;
}

/**
 * Starts machines in the order of their requests, as far as resources allow, and a limited number at the same time. This covers
 * all processes that use the state folder. {@link verdictFor} has the rule.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #tickets: Tickets;
  readonly #own = new Map<string, Ticket>();
  readonly #starting = new Map<string, string>();
  readonly #waiters = new Set<Waiter>();
  readonly #following = new Set<Promise<void>>();
  readonly #closed = new AbortController();
  #watching: Disposable | undefined;
  #check: Promise<void> | undefined;
  #isStale = false;
  #arrivals = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#tickets = new Tickets(options.stateDir);
  }

  async open(): Promise<void> {
    await this.#tickets.open();
  }

  /**
   * Runs `work`, which asks for its turn. Runs it again each time its turn may have come.
   *
   * @throws errors of `work`; `CLOUD_QUOTA` or `CLOUD_NO_CAPACITY` if there is not enough and the caller does not wait
   */
  async inTurn<T>(
    request: Pick<LaunchRequest, "createdAt" | "onWait">,
    signal: AbortSignal | undefined,
    work: (turn: Turn) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#options;
    const key = randomUUID();
    const arrivedAt = clock.now() + this.#arrivals++ / 1e6;
    const createdAt = request.createdAt === undefined ? arrivedAt : Date.parse(request.createdAt);
    const turn: Turn = {
      take: async (machineId, needs, room, refusal) => {
        const ticket = { key, createdAt, arrivedAt, needs };
        await this.#take(ticket, machineId, room, refusal);
      },
      isRunning: (files, startedFrom) => this.#follow(key, files, startedFrom),
    };
    const until = clock.monotonic() + longestWaitMs;
    try {
      for (;;) {
        try {
          return await work(turn);
        } catch (error) {
          if (!(error instanceof NotAdmittedError)) throw error;
          const isLate = clock.monotonic() > until;
          const isBrief = error.verdict.lack === "starts";
          if (!isBrief && (request.onWait === undefined || isLate)) throw error.refusal;
          await this.#waitForTurn(key, error, request.onWait, signal);
        }
      }
    } catch (error) {
      await this.#drop(key);
      throw error;
    } finally {
      if (this.#own.get(key)?.state === "waiting") await this.#drop(key);
    }
  }

  /** Call this when a machine is gone. It is no longer starting, and its resources are free. */
  async ended(machineId: string): Promise<void> {
    const key = this.#starting.get(machineId);
    if (key !== undefined) await this.#drop(key);
    this.changed();
  }

  /** Call this when resources may be free: a machine has ended, or something else has changed. */
  changed(): void {
    if (this.#waiters.size === 0) return;
    this.#isStale = true;
    this.#check ??= this.#checkUntilFresh().finally(() => {
      this.#check = undefined;
    });
  }

  /** Rejects all waiters of this process. */
  async close(): Promise<void> {
    this.#closed.abort(
      new CloudError("CLOUD_UNAVAILABLE", "Cannot wait for a machine's turn: kip ends"),
    );
    for (const key of this.#own.keys()) await this.#drop(key);
    await Promise.all([this.#check, ...this.#following]);
  }

  async #take(
    launch: Omit<Ticket, "state" | "process">,
    machineId: string,
    room: Resources,
    refusal: () => CloudError | undefined,
  ): Promise<void> {
    const ticket = { ...launch, process: thisProcess() };
    const all = await this.#tickets.read();
    const others = waiting(all).filter(({ key }) => key !== ticket.key);
    const starts = this.#options.startsAtOnce - startingCount(all);
    const verdict = verdictFor(ticket.key, [...others, ticket], { ...room, starts });
    if (verdict.kind === "wait") {
      await this.#put({ ...ticket, state: "waiting" });
      throw new NotAdmittedError(verdict, refusal() ?? refusalBehind(verdict));
    }
    await this.#put({ ...ticket, state: "starting" });
    this.#starting.set(machineId, ticket.key);
  }

  #follow(key: string, files: MachineFiles, startedFrom: Instance["startedFrom"]): void {
    const { clock, logger } = this.#options;
    const work = untilUp(files, startedFrom, clock, this.#closed.signal)
      .then(() => this.#drop(key))
      .catch((error: unknown) => {
        logger.warn("Could not follow the start of a machine", {
          folder: files.folder,
          err: errorText(error),
        });
      })
      .finally(() => this.#following.delete(work));
    this.#following.add(work);
  }

  /** Resolves when it may be the launch's turn. */
  async #waitForTurn(
    key: string,
    { verdict, refusal }: NotAdmittedError,
    onWait: LaunchRequest["onWait"],
    asked: AbortSignal | undefined,
  ): Promise<void> {
    const turn = Promise.withResolvers<void>();
    let reported: Wait | undefined;
    const report = (now: Wait): void => {
      if (!isWorthReporting(now, reported)) return;
      reported = now;
      onWait?.(describeWait(now, refusal));
    };
    const waiter: Waiter = { key, wake: turn.resolve, report };
    const signal = AbortSignal.any([this.#closed.signal, ...(asked ? [asked] : [])]);
    this.#waiters.add(waiter);
    this.#watch();
    try {
      signal.throwIfAborted();
      report(verdict);
      // Something may have happened between the refusal and now.
      this.changed();
      await untilAborted(turn.promise, signal);
    } finally {
      this.#waiters.delete(waiter);
      this.#watch();
    }
  }

  async #checkUntilFresh(): Promise<void> {
    while (this.#isStale && this.#waiters.size > 0) {
      this.#isStale = false;
      try {
        await this.#checkWaiters();
      } catch (error) {
        this.#options.logger.warn("Could not read the queue of launches", {
          err: errorText(error),
        });
      }
    }
  }

  async #checkWaiters(): Promise<void> {
    const all = await this.#tickets.read();
    const launches = waiting(all);
    const starts = this.#options.startsAtOnce - startingCount(all);
    const room = { ...(await this.#options.readRoom()), starts };
    const verdicts = verdictsFor(launches, room);
    for (const waiter of this.#waiters) {
      // A launch without a ticket notices it by itself.
      const verdict = verdicts.get(waiter.key) ?? ({ kind: "go" } as const);
      if (verdict.kind === "go") waiter.wake();
      else waiter.report(verdict);
    }
  }

  /** Watches for changes by other processes while a launch is waiting. */
  #watch(): void {
    const isNeeded = this.#waiters.size > 0;
    if (isNeeded === (this.#watching !== undefined)) return;
    this.#watching?.[Symbol.dispose]();
    this.#watching = isNeeded ? this.#startWatching() : undefined;
  }

  #startWatching(): Disposable {
    const { clock, logger, machinesDir } = this.#options;
    const onChange = (): void => this.changed();
    using watching = new DisposableStack();
    const stop = watching.adopt(new AbortController(), (each) => each.abort());
    for (const folder of [this.#tickets.folder, machinesDir])
      watching.use(watchOrPoll(folder, onChange));
    void every(
      {
        intervalMs: recheckMs,
        isImmediate: false,
        clock,
        logger,
        what: "look at the queue of launches",
        signal: stop.signal,
      },
      async () => await Promise.resolve(onChange()),
    );
    return watching.move();
  }

  async #put(ticket: Ticket): Promise<void> {
    this.#own.set(ticket.key, ticket);
    await this.#tickets.put(ticket);
  }

  async #drop(key: string): Promise<void> {
    this.#own.delete(key);
    for (const [machineId, starting] of this.#starting)
      if (starting === key) this.#starting.delete(machineId);
    await this.#tickets.remove(key);
    this.changed();
  }
}
