import { pause, type Logger } from "@kip/base";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";
import type { CurrentTerm } from "../replicas/current-term.ts";
import { turnLease, turnNamespace } from "../replicas/run-in-turns.ts";
import { runOneTurn } from "../replicas/run-one-turn.ts";
import { cleanUpNode, type CleanUpOptions } from "./clean-up-node.ts";

/** Options of {@link cleanUpInTurn}. */
export interface CleanUpInTurnOptions extends CleanUpOptions {
  /** Gets the term of the turn, for drivers that ask it themselves. */
  readonly currentTerm: CurrentTerm;
  readonly logger: Logger;
}

/** How long a node's Lease lasts that does not say it, milliseconds: the kubelet's. */
const leaseMs = 40_000;
/** A Lease that is older by the clocks of both computers is taken for one of a kip that is gone, milliseconds. */
const longSilenceMs = 300_000;
/** A kip that is gone holds its turn for 15 s; one that waits as well may have it in between. Milliseconds. */
const turnLimitMs = 60_000;

/**
 * {@link cleanUpNode} in the node's own turn: no kip can run the node meanwhile. A kip that takes no turns, with
 * `--leader-elect=false`, is noticed by the Lease of its node, which it renews every 10 s.
 *
 * @returns whether all instances of the node have ended
 * @throws {ProviderError} `NODE_RUNNING` while a kip runs the node; and what {@link cleanUpNode} throws
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

/** Resolves when the Lease of the node was not renewed for as long as it lasts. */
async function expectSilence(options: CleanUpInTurnOptions): Promise<void> {
  const { client, nodeName, clock, signal, onProgress } = options;
  const seen = await readLease(client, nodeName);
  const renewed = Date.parse(seen?.spec?.renewTime ?? "");
  if (!seen || Number.isNaN(renewed) || clock.now() - renewed > longSilenceMs) return;
  const seconds = seen.spec?.leaseDurationSeconds ?? leaseMs / 1000;
  onProgress(`Waiting ${seconds} s to see that no kip runs node "${nodeName}"`);
  await pause(seconds * 1000, clock, signal);
  signal.throwIfAborted();
  const now = await readLease(client, nodeName);
  if (now?.spec?.renewTime !== seen.spec?.renewTime) throw isRunning(nodeName);
}

async function readLease(client: ApiClient, nodeName: string): Promise<Lease | undefined> {
  return await ignoreNotFound(client.get<Lease>(paths.leases(turnNamespace, nodeName)));
}

function isRunning(nodeName: string): ProviderError {
  return new ProviderError("NODE_RUNNING", `Cannot remove node "${nodeName}": a kip runs it`, {
    remedy: "Stop it first: kubectl --namespace=kip-system scale deployment/kip --replicas=0",
  });
}
