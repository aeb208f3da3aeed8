import { paths, type ApiClient } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { listKipNodes } from "./kip-nodes.ts";

/** Which pods to list. */
export interface PodQuery {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly selector?: string | undefined;
  readonly signal: AbortSignal;
}

/** The pods that are bound to kip's nodes, sorted by namespace and name. */
export async function listKipPods(client: ApiClient, query: PodQuery): Promise<readonly Pod[]> {
  const { namespace, selector, signal } = query;
  const nodes = await listKipNodes(client, signal);
  const lists = await Promise.all(
    nodes.map((node) =>
      client.list<Pod>(paths.pods(namespace), {
        query: { fieldSelector: `spec.nodeName=${node}`, labelSelector: selector },
        signal,
      }),
    ),
  );
  return lists.flatMap(({ items }) => items).sort((a, b) => compare(pathOf(a), pathOf(b)));
}

function pathOf({ metadata }: Pod): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
