import type { Clock, Logger } from "@kip/base";
import { requestNextLog } from "../control-pipe.ts";
import type { LogLimits } from "./log-limits.ts";
import { LogRotation } from "./log-rotation.ts";

/** The log of one container. */
export interface KeptLog {
  readonly directory: string;
  readonly limits: LogLimits;
  /** The control pipe of its monitor. */
  readonly control: string;
}

/** Rotates the logs of running containers. */
export class KeptLogs implements AsyncDisposable {
  readonly #options: { readonly logger: Logger; readonly clock: Clock };
  readonly #rotations = new Map<string, LogRotation>();

  constructor(options: { readonly logger: Logger; readonly clock: Clock }) {
    this.#options = options;
  }

  /** Keeps a container's log within its limits until it is released. */
  keep(id: string, { directory, limits, control }: KeptLog): void {
    if (this.#rotations.has(id)) return;
    const requestNext = async (): Promise<void> => await requestNextLog(control);
    const options = { ...this.#options, limits, requestNext };
    this.#rotations.set(id, new LogRotation(directory, options));
  }

  /** Stops for a container that has ended. */
  async release(id: string): Promise<void> {
    const rotation = this.#rotations.get(id);
    this.#rotations.delete(id);
    await rotation?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#rotations.keys()].map(async (id) => await this.release(id)));
  }
}
