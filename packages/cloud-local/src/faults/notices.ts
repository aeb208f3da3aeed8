import { errorText, type Clock, type Logger } from "@kip/base";
import type { Instance, InterruptionNotice } from "@kip/cloud";
import type { FaultsFile, MachineNotice } from "./faults-file.ts";

/** Dependencies of {@link Notices}. */
export interface NoticesOptions {
  readonly file: FaultsFile;
  /** The machine, if it belongs to the driver's owner and has not ended. */
  readonly describe: (id: string) => Promise<Instance | undefined>;
  /** Whether the machine with this ID and launch time is gone, whatever its owner. */
  readonly isGone: (notice: MachineNotice) => Promise<boolean>;
  readonly end: (id: string) => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Reports each notice in the file once, and ends its machine in time. */
export class Notices {
  readonly #options: NoticesOptions;
  readonly #listeners = new Set<(notice: InterruptionNotice) => void>();
  readonly #reported = new Map<string, InterruptionNotice>();
  readonly #stop = new AbortController();
  #unwatch: () => void = () => {};
  #isChecking = false;
  #isCheckRequested = false;
  #work: Promise<void> = Promise.resolve();

  constructor(options: NoticesOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    this.#unwatch = this.#options.file.watch(() => this.#check());
    this.#check();
    await this.#work;
  }

  subscribe(callback: (notice: InterruptionNotice) => void): () => void {
    const own = (notice: InterruptionNotice): void => callback(notice);
    this.#listeners.add(own);
    const earlier = [...this.#reported.values()];
    queueMicrotask(() => {
      for (const notice of earlier) if (this.#listeners.has(own)) this.#notify(own, notice);
    });
    return () => void this.#listeners.delete(own);
  }

  async close(): Promise<void> {
    this.#unwatch();
    this.#listeners.clear();
    this.#stop.abort(new Error("The local cloud is closed"));
    await this.#work;
  }

  /** Checks the file again, after a check that is under way. */
  #check(): void {
    this.#isCheckRequested = true;
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#work = this.#checkWhileRequested();
  }

  async #checkWhileRequested(): Promise<void> {
    while (this.#isCheckRequested && !this.#stop.signal.aborted) {
      this.#isCheckRequested = false;
      try {
        const { notices } = await this.#options.file.read();
        for (const notice of notices) await this.#take(notice);
      } catch (error) {
        this.#options.logger.warn("Could not read notices of interruption", { err: error });
      }
    }
    this.#isChecking = false;
  }

  async #take(notice: MachineNotice): Promise<void> {
    const instance = await this.#options.describe(notice.instance);
    if (instance?.launchedAt !== notice.launchedAt) {
      if (await this.#options.isGone(notice)) await this.#forget(notice);
      return;
    }
    const key = keyOf(notice);
    if (this.#reported.has(key)) return;
    const reported = { instance, endsAt: notice.endsAt };
    this.#reported.set(key, reported);
    for (const listener of this.#listeners) this.#notify(listener, reported);
    this.#endInTime(notice).catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      this.#options.logger.error("Could not end a machine at its time", {
        instance: notice.instance,
        err: errorText(error),
      });
    });
  }

  async #endInTime(notice: MachineNotice): Promise<void> {
    const { clock, describe, end } = this.#options;
    await clock.sleep(Math.max(0, Date.parse(notice.endsAt) - clock.now()), this.#stop.signal);
    const { notices } = await this.#options.file.read();
    if (!notices.some((each) => keyOf(each) === keyOf(notice))) return; // a later notice replaces this one
    const instance = await describe(notice.instance);
    if (instance?.launchedAt === notice.launchedAt) await end(notice.instance);
    await this.#forget(notice);
  }

  async #forget(notice: MachineNotice): Promise<void> {
    this.#reported.delete(keyOf(notice));
    await this.#options.file.update((state) => {
      const notices = state.notices.filter((each) => keyOf(each) !== keyOf(notice));
      return notices.length === state.notices.length ? state : { ...state, notices };
    });
  }

  #notify(listener: (notice: InterruptionNotice) => void, notice: InterruptionNotice): void {
    try {
      listener(notice);
    } catch (error) {
      this.#options.logger.error("Listener failed", { err: errorText(error) });
    }
  }
}

function keyOf({ instance, launchedAt, endsAt }: MachineNotice): string {
  return `${instance} ${launchedAt} ${endsAt}`;
}
