import type { Clock, Logger } from "@kip/base";
import type { ContainerRuntime } from "./container-runtime.ts";

/** Options of {@link createRuntime}. */
export interface RuntimeOptions {
  /**
   * Directory for all state, made if missing. On tmpfs: it must not outlive the machine's boot, and
   * bundles hold secrets. Short: paths of sockets in it are limited to 100 characters.
   */
  readonly runDir: string;
  /** @default "crun" from PATH */
  readonly crun?: string;
  /** @default "conmon" from PATH */
  readonly conmon?: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Starts the runtime: takes over the containers of earlier lives that are still there. */
export function createRuntime(options: RuntimeOptions): Promise<ContainerRuntime> {
  return Promise.reject(new Error(`not built yet: ${options.runDir}`));
}
