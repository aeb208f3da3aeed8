import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";

/** UIDs of the pods that are bound to a node, read from the API and not from a cache. */
export async function boundPods(client: ApiClient, nodeName: string): Promise<ReadonlySet<string>> {
  const { items } = await client.list<Pick<Pod, "metadata">>(paths.pods(), {
    query: { fieldSelector: `spec.nodeName=${nodeName}` },
    accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
  });
  return new Set(items.map(({ metadata }) => metadata.uid));
}
