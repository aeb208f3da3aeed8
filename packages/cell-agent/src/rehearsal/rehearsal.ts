import type { Clock, Logger } from "@kip/base";

/** Options of {@link rehearse}. */
export interface RehearsalOptions {
  /** Folder on disk. A folder in it is used and finally removed. */
  readonly stateDir: string;
  /** Folder on a tmpfs. A folder in it is used and finally removed. */
  readonly runDir: string;
  /** Interface for the pod's traffic. It may be down. */
  readonly hostInterface: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Runs everything that a pod's start needs, once, in a machine that will be cloned. So clones do not have to compile, load,
 * open and cache the same things again. The same client that kip uses gives a pod to a whole agent with a temporary identity.
 * Afterwards both are removed: no image, file, mount, namespace or connection is left.
 *
 * @throws {AgentError} `REHEARSAL_FAILED` if the pod fails; errors of the agent and its dependencies
 */
export async function rehearse(options: RehearsalOptions): Promise<void> {
  // Loaded on demand, because most agents never need it.
  const { runRehearsal } = await import("./run-rehearsal.ts");
  await runRehearsal(options);
}
