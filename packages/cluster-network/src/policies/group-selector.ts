import { createHash } from "node:crypto";
import type { LabelSelector } from "@kip/k8s-types/network";
import type { Protocol } from "@kip/network-view";

/** Selects the pods or nodes of a group. */
export interface GroupSelector {
  /** Selects nodes by their labels. Then the other fields have no effect. */
  readonly nodes?: LabelSelector | undefined;
  /** The only namespace. Absent if `namespaceSelector` selects namespaces. */
  readonly namespace?: string | undefined;
  readonly namespaceSelector?: LabelSelector | undefined;
  readonly podSelector: LabelSelector;
  /** Only pods whose port of this name has this number, or a number other than these. */
  readonly port?: PortName &
    ({ readonly number: number } | { readonly otherThan: ReadonlySet<number> });
  /** The group contains the numbers of the pods' ports of this name, instead of the pods' addresses. */
  readonly numbersOf?: PortName;
}

/** A named port in a policy. */
export interface PortName {
  readonly name: string;
  readonly protocol: Protocol;
}

/**
 * The name of a selector's group: a hash that does not depend on the order of the selector's keys. It has 128 bits, so that users cannot
 * find two selectors with the same name. Such selectors would share a group.
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

/** A normal form of a selector: it does not depend on the order of keys and values. */
function sorted(selector: LabelSelector | undefined): unknown {
  if (!selector) return undefined;
  const labels = Object.entries(selector.matchLabels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) =>
    JSON.stringify([key, operator, [...values].sort()]),
  );
  return [labels, expressions.sort()];
}
