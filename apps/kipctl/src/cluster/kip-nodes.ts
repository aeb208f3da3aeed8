import { paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";

/** Label that kip gives its virtual nodes: the cloud that their cells are in. */
export const cloudLabel = "kip.elotl.co/cloud";

/** Names of the virtual nodes of kip, sorted. */
export async function listKipNodes(
  client: ApiClient,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { items } = await client.list<Node>(paths.nodes(), {
    query: { labelSelector: cloudLabel },
    signal,
  });
  return items
    .map(({ metadata }) => metadata?.name)
    .filter((name) => name !== undefined)
    .sort();
}
