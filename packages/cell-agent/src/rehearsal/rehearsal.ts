import type { Clock, Logger } from "@kip/base";

/** Options of {@link rehearse}. */
export interface RehearsalOptions {
  /** Directory on disk; a folder in it is used, and removed at the end. */
  readonly stateDir: string;
  /** Directory on a tmpfs; a folder in it is used, and removed at the end. */
  readonly runDir: string;
  /** Interface that the pod's traffic would go through; it may be down. */
  readonly hostInterface: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

/**
 * Goes once through all that the start of a pod needs, in a machine that will be copied: what is compiled, loaded, opened
 * and cached by it need not be so in each copy. A whole agent with a throw-away identity is given a pod by the same client
 * that kip uses, and both vanish: no image, file, mount, namespace or connection is left.
 *
 * @throws {AgentError} `REHEARSAL_FAILED` when the pod fails; whatever the agent and its dependencies throw
 */
export async function rehearse(options: RehearsalOptions): Promise<void> {
  // Loaded when it is called: most agents never do.
  const { runRehearsal } = await import("./run-rehearsal.ts");
  await runRehearsal(options);
}
