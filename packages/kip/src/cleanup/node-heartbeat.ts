import { pause, silentLogger, type Clock } from "@kip/base";
import { createInformer, ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Lease } from "@kip/k8s-types";
import { turnNamespace } from "../replicas/run-in-turns.ts";

/** Which node is looked at, and by what. */
export interface HeartbeatOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** How long a node's Lease lasts that does not say it, milliseconds: the kubelet's. */
const leaseMs = 40_000;
/** A Lease that is older by the clocks of both computers is taken for one of a kip that is gone, milliseconds. */
const longSilenceMs = 300_000;

/**
 * Whether a kip renews the Lease of the node: true at the next renewal, which a kip that runs makes every 10 s; false when there was
 * none for as long as the Lease lasts.
 *
 * @param onWait gets the longest time that this may take, seconds, if it has to wait
 * @throws the signal's reason; {K8sError} if the API does not answer
 */
export async function isNodeRun(
  options: HeartbeatOptions,
  onWait?: (seconds: number) => void,
): Promise<boolean> {
  const { clock, signal } = options;
  const seen = await readLease(options);
  const renewed = Date.parse(seen?.spec?.renewTime ?? "");
  if (!seen || Number.isNaN(renewed) || clock.now() - renewed > longSilenceMs) return false;
  const seconds = seen.spec?.leaseDurationSeconds ?? leaseMs / 1000;
  onWait?.(seconds);
  await untilRenewed(options, seen, seconds * 1000);
  signal.throwIfAborted();
  return (await readLease(options))?.spec?.renewTime !== seen.spec?.renewTime;
}

/** Resolves when the Lease is renewed, after the time, or when the signal aborts. */
async function untilRenewed(
  { client, nodeName, clock, signal }: HeartbeatOptions,
  seen: Lease,
  limitMs: number,
): Promise<void> {
  const done = new AbortController();
  createInformer<Lease>({
    client,
    path: paths.leases(turnNamespace),
    query: { fieldSelector: `metadata.name=${nodeName}` },
    onEvent: ({ object }) => {
      if (object.spec?.renewTime !== seen.spec?.renewTime) done.abort();
    },
    clock,
    logger: silentLogger,
    signal: AbortSignal.any([signal, done.signal]),
  });
  await pause(limitMs, clock, AbortSignal.any([signal, done.signal]));
  done.abort();
}

async function readLease({ client, nodeName }: HeartbeatOptions): Promise<Lease | undefined> {
  return await ignoreNotFound(client.get<Lease>(paths.leases(turnNamespace, nodeName)));
}
