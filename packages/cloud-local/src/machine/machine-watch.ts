import { errorText, untilAborted, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { ControlSocket } from "../qemu/control-socket.ts";
import { readMachinePid } from "./machine-process.ts";
import type { MachineFiles } from "./machine-store.ts";

/** Connections to running machines, and the callers that wait for their ends. */
export class MachineWatch {
  readonly #controls = new Map<string, ControlSocket>();
  readonly #waiters = new Map<string, PromiseWithResolvers<void>>();
  readonly #onEnded: (id: string, reason: string | undefined) => Promise<void>;
  readonly #logger: Logger;
  /** Ends that are being processed. */
  readonly #pending = new Set<Promise<void>>();

  constructor(onEnded: (id: string, reason: string | undefined) => Promise<void>, logger: Logger) {
    this.#onEnded = onEnded;
    this.#logger = logger;
  }

  /** Watches a machine, unless it is already watched. False if no process of it is alive. */
  async add(id: string, files: MachineFiles): Promise<boolean> {
    if (this.#controls.has(id)) return true;
    let control: ControlSocket | undefined;
    try {
      control = await ControlSocket.connect(files.control);
    } catch {
      // It is alive, but its connection queue is full because many processes watch it.
      return (await readMachinePid(files)) !== undefined;
    }
    if (control === undefined) return false;
    if (this.#controls.has(id)) control.close();
    else this.#keep(id, control);
    return true;
  }

  /**
   * Watches a machine that is not running yet. Returns when its events arrive here.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if no process of it is alive
   */
  async subscribe(id: string, files: MachineFiles): Promise<void> {
    const isAlive = await this.add(id, files);
    const control = this.#controls.get(id);
    if (!isAlive || !control)
      throw new CloudError("CLOUD_UNAVAILABLE", "Cannot watch the machine: it has ended");
    await control.subscribed;
  }

  /** Stops watching. Call this before ending the machine on request. */
  drop(id: string): void {
    this.#controls.get(id)?.close();
    this.#controls.delete(id);
  }

  /** Resolves when {@link MachineWatch.settle} is called for the machine. */
  async gone(id: string, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    let waiter = this.#waiters.get(id);
    if (!waiter) {
      waiter = Promise.withResolvers<void>();
      waiter.promise.catch(() => {}); // callers that wait get the error
      this.#waiters.set(id, waiter);
    }
    await untilAborted(waiter.promise, signal);
  }

  /** Call this when the machine is gone. */
  settle(id: string): void {
    this.#waiters.get(id)?.resolve();
    this.#waiters.delete(id);
  }

  /** Closes all connections. The machines keep running. */
  async close(): Promise<void> {
    for (const id of this.#controls.keys()) this.drop(id);
    for (const waiter of this.#waiters.values())
      waiter.reject(new CloudError("CLOUD_UNAVAILABLE", "Cannot wait for a machine: kip ends"));
    this.#waiters.clear();
    await Promise.all(this.#pending);
  }

  #keep(id: string, control: ControlSocket): void {
    this.#controls.set(id, control);
    const work = control.ended.then(async (reason) => {
      this.#controls.delete(id);
      const handled = this.#onEnded(id, reason).catch((error: unknown) => {
        this.#logger.error("Could not record the end of a machine", {
          instance: id,
          err: errorText(error),
        });
      });
      this.#pending.add(handled);
      await handled;
      this.#pending.delete(handled);
    });
    work.catch(() => {});
  }
}
