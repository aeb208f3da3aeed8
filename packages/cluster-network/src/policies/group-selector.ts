import { createHash } from "node:crypto";
import type { LabelSelector } from "@kip/k8s-types/network";
import type { Protocol } from "@kip/network-view";

/** Which pods a group has, or which nodes. */
export interface GroupSelector {
  /** Nodes by their labels; then all else has no effect. */
  readonly nodes?: LabelSelector | undefined;
  /** The one namespace; absent if `namespaceSelector` chooses. */
  readonly namespace?: string | undefined;
  readonly namespaceSelector?: LabelSelector | undefined;
  readonly podSelector: LabelSelector;
  /** Only pods that have this number for the name of a port, or any number but these. */
  readonly port?: PortName &
    ({ readonly number: number } | { readonly otherThan: ReadonlySet<number> });
  /** The group has the numbers that pods have for the name of a port, not their addresses. */
  readonly numbersOf?: PortName;
}

/** A port as policies name it. */
export interface PortName {
  readonly name: string;
  readonly protocol: Protocol;
}

/**
 * The name of the group of a selector: the same for the same selector, in whatever order its keys were written. Users choose selectors,
 * and one that has the name of another one's group would be taken for it: 128 bits keep them from finding such a one.
 */
export function groupName(selector: GroupSelector): string {
  const { nodes, namespace, namespaceSelector, podSelector, port, numbersOf } = selector;
  const ofPort =
    port && "otherThan" in port
      ? { ...port, otherThan: [...port.otherThan].sort((a, b) => a - b) }
      : port;
  const pods = [namespace, sorted(namespaceSelector), sorted(podSelector), ofPort];
  const text = JSON.stringify(
    nodes ? ["nodes", sorted(nodes)] : numbersOf ? ["numbers", numbersOf, pods] : pods,
  );
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/** The same text for the same selector, in whatever order its keys were written. */
function sorted(selector: LabelSelector | undefined): unknown {
  if (!selector) return undefined;
  const labels = Object.entries(selector.matchLabels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) =>
    JSON.stringify([key, operator, [...values].sort()]),
  );
  return [labels, expressions.sort()];
}
