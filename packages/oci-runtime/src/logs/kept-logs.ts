import type { Clock, Logger } from "@kip/base";
import { LogRotation } from "./log-rotation.ts";

/** The logs of the containers that run. */
export class KeptLogs implements AsyncDisposable {
  readonly #options: { readonly logger: Logger; readonly clock: Clock };
  readonly #rotations = new Map<string, LogRotation>();

  constructor(options: { readonly logger: Logger; readonly clock: Clock }) {
    this.#options = options;
  }

  /** Keeps a container's log within its limits until it is released. */
  keep(id: string, directory: string, maxFiles: number): void {
    if (this.#rotations.has(id)) return;
    this.#rotations.set(id, new LogRotation(directory, { ...this.#options, maxFiles }));
  }

  /** The container has ended. */
  async release(id: string): Promise<void> {
    const rotation = this.#rotations.get(id);
    this.#rotations.delete(id);
    await rotation?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#rotations.keys()].map(async (id) => await this.release(id)));
  }
}
