import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { ProviderError } from "../errors.ts";
import { hasEnded } from "../state/cell-state.ts";

/** Query for the pods that are bound to a node. */
export function podsOfNode(nodeName: string): { readonly fieldSelector: string } {
  return { fieldSelector: `spec.nodeName=${nodeName}` };
}

/** Whether a pod would be lost with its node. */
export function isInUse(pod: Pod): boolean {
  return !hasEnded(pod.status) && !isOfDaemonSet(pod);
}

/** Whether a pod is running and belongs to the node. `kubectl drain` also leaves it. */
export function staysOnNode(pod: Pod): boolean {
  return !hasEnded(pod.status) && isOfDaemonSet(pod);
}

function isOfDaemonSet({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some(({ kind }) => kind === "DaemonSet") ?? false;
}

/** Whether a controller creates another pod if this one is evicted. */
export function hasController({ metadata }: Pod): boolean {
  return metadata.ownerReferences?.some(({ controller }) => controller === true) ?? false;
}

/**
 * Throws if the node has pods in use for which `counts` is true.
 *
 * @param what for the message, after "it has pods"
 * @throws {ProviderError} `NODE_IN_USE`
 */
export async function refuseWhileInUse(
  { client, nodeName }: { readonly client: ApiClient; readonly nodeName: string },
  {
    counts,
    what,
    remedy,
  }: {
    readonly counts: (pod: Pod) => boolean;
    readonly what: string;
    readonly remedy: string;
  },
): Promise<void> {
  const { items } = await client.list<Pod>(paths.pods(), { query: podsOfNode(nodeName) });
  const found = items.filter((pod) => isInUse(pod) && counts(pod));
  if (found.length === 0) return;
  throw new ProviderError(
    "NODE_IN_USE",
    `Cannot remove node "${nodeName}": it has pods ${what}: ${namesText(found)}`,
    { remedy },
  );
}

/**
 * Throws if the node has pods that have not ended, while no kip is running that would end their machines.
 *
 * @throws {ProviderError} `NODE_IN_USE`
 */
export async function refuseWithPods(node: {
  readonly client: ApiClient;
  readonly nodeName: string;
}): Promise<void> {
  await refuseWhileInUse(node, {
    counts: () => true,
    what: "that have not ended",
    remedy: `Move them first: kubectl drain ${node.nodeName}. Or give --end-pods to end them`,
  });
}

/** Up to five names of pods, and the number of others. */
export function namesText(pods: readonly Pod[]): string {
  const names = pods.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
  return `${names.slice(0, 5).join(", ")}${more}`;
}
