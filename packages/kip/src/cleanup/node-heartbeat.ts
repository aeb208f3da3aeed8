import type { Clock } from "@kip/base";
import { ignoreNotFound, paths, type ApiClient } from "@kip/k8s-client";
import { turnNamespace } from "../replicas/run-in-turns.ts";
import { heartbeatOf, signOfLife, type Heartbeat } from "./sign-of-life.ts";

/** The node to check, and the client for it. */
export interface HeartbeatOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Duration of a node's Lease that does not specify one, seconds. The kubelet's default. */
const leaseSeconds = 40;

/**
 * Whether a kip runs the node. True at the next renewal of the node's Lease, which a running kip makes every 10 s, or at the
 * Node's next heartbeat. False if there was none for the duration of the Lease, or at once if there is neither Lease nor Node.
 * Does not compare clocks, because this computer's may be wrong.
 *
 * @param onWait called with the longest time that this may take, seconds, if it has to wait
 * @throws the signal's reason; {K8sError} if the API does not respond
 */
export async function isNodeRun(
  options: HeartbeatOptions,
  onWait?: (seconds: number) => void,
): Promise<boolean> {
  const { client, nodeName } = options;
  const [lease, node] = await Promise.all([
    ignoreNotFound(client.get<Heartbeat>(paths.leases(turnNamespace, nodeName))),
    ignoreNotFound(client.get<Heartbeat>(paths.nodes(nodeName))),
  ]);
  if (!lease && !node) return false;
  const seconds = lease?.spec?.leaseDurationSeconds ?? leaseSeconds;
  onWait?.(seconds);
  const query = { fieldSelector: `metadata.name=${nodeName}` };
  const isNewerThan =
    (before: Heartbeat | undefined) =>
    (object: Heartbeat): boolean =>
      heartbeatOf(object) !== (before && heartbeatOf(before));
  const sign = await signOfLife({ ...options, limitMs: seconds * 1000 }, [
    { path: paths.leases(turnNamespace), query, isSign: isNewerThan(lease) },
    { path: paths.nodes(), query, isSign: isNewerThan(node) },
  ]);
  return sign !== undefined;
}
