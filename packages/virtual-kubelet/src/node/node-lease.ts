import { backoffDelay, every, type Clock, type Logger } from "@kip/base";
import { createLeaseHolder, type ApiClient } from "@kip/k8s-client";
import type { OwnerReference } from "@kip/k8s-types";
import type { NodeIntervals } from "./node-options.ts";

/** Options of {@link keepNodeLease}. */
export interface NodeLeaseOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  /** UID of the Node object. Undefined if it does not exist. */
  readonly nodeUid: () => string | undefined;
  readonly intervals: Pick<NodeIntervals, "leaseMs" | "leaseDurationMs">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const backoff = { initialMs: 200, maxMs: 7000 };

/** Renews the node's Lease, its heartbeat, until the signal aborts. */
export async function keepNodeLease(options: NodeLeaseOptions): Promise<void> {
  const { client, nodeName, nodeUid, intervals, clock, logger, signal } = options;
  const lease = createLeaseHolder({
    client,
    namespace: "kube-node-lease",
    name: nodeName,
    holder: nodeName,
    durationSeconds: Math.max(1, Math.round(intervals.leaseDurationMs / 1000)),
    owner: (): OwnerReference | undefined => {
      const uid = nodeUid();
      return uid === undefined
        ? undefined
        : { apiVersion: "v1", kind: "Node", name: nodeName, uid };
    },
    clock,
  });
  let failures = 0;
  let lastError: unknown;
  const intervalMs = (): number =>
    failures === 0
      ? intervals.leaseMs
      : Math.min(intervals.leaseMs, backoffDelay(failures - 1, backoff, lastError));
  await every({ intervalMs, clock, logger, what: "renew the node's lease", signal }, async () => {
    try {
      await lease.renew(signal);
      failures = 0;
    } catch (error) {
      failures++;
      lastError = error;
      throw error;
    }
  });
}
