import { backoffDelay, every, type Clock, type Logger } from "@kip/base";
import { createLeaseHolder, ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import type { Node, OwnerReference } from "@kip/k8s-types";
import { nodeIntervals } from "./node-intervals.ts";
import type { NodeIntervals } from "./node-options.ts";

/** Options of {@link keepNodeLease}. */
export interface NodeLeaseOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  /** UID of the Node object. Undefined if it does not exist. */
  readonly nodeUid: () => string | undefined;
  /** Called before each renewal. The Lease is not renewed while it resolves to false. @default always renewed */
  readonly isDue?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  readonly intervals: Pick<NodeIntervals, "leaseMs" | "leaseDurationMs">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const backoff = { initialMs: 200, maxMs: 7000 };

/** Renews the node's Lease, its heartbeat, until the signal aborts. */
export async function keepNodeLease(options: NodeLeaseOptions): Promise<void> {
  const { client, nodeName, nodeUid, isDue, intervals, clock, logger, signal } = options;
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
      if ((await isDue?.(signal)) !== false) await lease.renew(signal);
      failures = 0;
    } catch (error) {
      failures++;
      lastError = error;
      throw error;
    }
  });
}

/** Options of {@link keepKnownNode}. */
export type KnownNodeOptions = Omit<NodeLeaseOptions, "nodeUid" | "isDue" | "intervals">;

/**
 * Renews the Lease of a node that an earlier process has registered, until the signal aborts. Meanwhile, a program may wait for
 * what its provider needs, and Kubernetes does not take the node for lost and evict its pods. Writes nothing while there is no
 * such Node. Never throws.
 */
export async function keepKnownNode(options: KnownNodeOptions): Promise<void> {
  const { client, nodeName } = options;
  let uid: string | undefined;
  // Read each time: the Node may be deleted, or made again with another UID.
  const isDue = async (signal: AbortSignal): Promise<boolean> => {
    const reading = client.get<Node>(paths.nodes(nodeName), { signal, isUrgent: true });
    uid = (await ignoreNotFound(reading))?.metadata?.uid;
    return uid !== undefined;
  };
  await keepNodeLease({ ...options, nodeUid: () => uid, isDue, intervals: nodeIntervals() });
}
