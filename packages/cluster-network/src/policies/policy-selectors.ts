import type { NetworkPolicy } from "@kip/k8s-types/network";
import { protocolOf } from "../services/service-view-of.ts";
import type { GroupSelector } from "./group-selector.ts";
import { restricts, selectorsOfPeers } from "./pod-policy.ts";
import { isAffordable } from "./policy-cost.ts";

/** Every pod: the peers of a rule that names a port and no peers. */
const everyPod: GroupSelector = { namespaceSelector: {}, podSelector: {} };

/**
 * Selectors of all groups that the rules of a policy need for any pod, including groups of port numbers. Without those of a direction that
 * exceeds the limits of a pod, because it gets no rules.
 */
export function selectorsOf(policy: NetworkPolicy): readonly GroupSelector[] {
  const { metadata, spec } = policy;
  const isComputed = (direction: "Ingress" | "Egress"): boolean =>
    restricts(policy, direction) && isAffordable([policy], direction);
  const found: GroupSelector[] = [];
  for (const { from = [] } of isComputed("Ingress") ? (spec?.ingress ?? []) : [])
    for (const selector of selectorsOfPeers(from, metadata.namespace)) found.push(selector);
  for (const { to = [], ports = [] } of isComputed("Egress") ? (spec?.egress ?? []) : []) {
    const selectors = selectorsOfPeers(to, metadata.namespace);
    const named = ports.filter(({ port }) => typeof port === "string");
    if (named.length < ports.length || ports.length === 0)
      for (const selector of selectors) found.push(selector);
    for (const { port, protocol } of named)
      for (const selector of to.length === 0 ? [everyPod] : selectors)
        found.push({
          ...selector,
          numbersOf: { name: String(port), protocol: protocolOf(protocol) },
        });
  }
  return found;
}
