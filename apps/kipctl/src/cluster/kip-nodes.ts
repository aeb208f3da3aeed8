import { paths, type ApiClient } from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";

/** Label of kip's virtual nodes. Its value is the cloud of their cells. */
export const cloudLabel = "kip.elotl.co/cloud";

/** Sorted names of kip's virtual nodes. */
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
