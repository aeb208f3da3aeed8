import type { Node } from "@kip/k8s-types";
import { canonicalAddress } from "@kip/network-view";
import type { NodeFacts } from "./address-groups.ts";

/** Reads labels and addresses of a node. */
export function nodeFacts({ metadata, status }: Node): NodeFacts {
  const addresses = (status?.addresses ?? []).flatMap(
    ({ address }) => canonicalAddress(address) ?? [],
  );
  return { labels: metadata?.labels ?? {}, addresses: [...new Set(addresses)] };
}
