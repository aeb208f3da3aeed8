import type { Logger } from "@kip/base";
import { ignoreNotFound, paths } from "@kip/k8s-client";
import { ProviderError } from "../errors.ts";
import type { CurrentTerm } from "../replicas/current-term.ts";
import { turnLease, turnNamespace } from "../replicas/run-in-turns.ts";
import { runOneTurn } from "../replicas/run-one-turn.ts";
import { cleanUpNode, type CleanUpOptions } from "./clean-up-node.ts";
import { isNodeRun } from "./node-heartbeat.ts";

/** Options of {@link cleanUpInTurn}. */
export interface CleanUpInTurnOptions extends CleanUpOptions {
  /** Returns the term of the turn, for drivers that need it. */
  readonly currentTerm: CurrentTerm;
  readonly logger: Logger;
}

/**
 * How long to wait for the node's turn, milliseconds. A kip that is gone holds it for 15 s, and another one may have it in
 * between.
 */
const turnLimitMs = 60_000;

/**
 * Runs {@link cleanUpNode} in the node's own turn, so that no kip can run the node at the same time. A kip without turns
 * (`--leader-elect=false`) is detected by its node's Lease, which it renews every 10 s.
 *
 * @returns whether all instances of the node have ended
 * @throws {ProviderError} `NODE_RUNNING` while a kip runs the node; errors of {@link cleanUpNode}
 */
export async function cleanUpInTurn(options: CleanUpInTurnOptions): Promise<boolean> {
  await expectSilence(options);
  const { client, nodeName, signal } = options;
  const isClean = await runOneTurn(
    { ...options, limitMs: turnLimitMs },
    async (parts) => await cleanUpNode({ ...options, ...parts }),
  );
  signal.throwIfAborted();
  if (isClean === undefined) throw isRunning(nodeName);
  await ignoreNotFound(client.delete(paths.leases(turnNamespace, turnLease(nodeName))));
  return isClean;
}

/** Resolves when the node's Lease was not renewed for its whole duration. */
async function expectSilence(options: CleanUpInTurnOptions): Promise<void> {
  const { nodeName, onProgress } = options;
  const onWait = (seconds: number): void =>
    onProgress(`Waiting ${seconds} s to see that no kip runs node "${nodeName}"`);
  if (await isNodeRun(options, onWait)) throw isRunning(nodeName);
}

function isRunning(nodeName: string): ProviderError {
  return new ProviderError("NODE_RUNNING", `Cannot remove node "${nodeName}": a kip runs it`, {
    remedy: "Stop it first: kubectl --namespace=kip-system scale deployment/kip --replicas=0",
  });
}
