import { matchesLabels } from "@kip/k8s-client";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { portsNamedBy } from "./named-ports.ts";
import { isAffordable, subjectOf } from "./policy-cost.ts";

/** So many policies are read in one step: less than 20 ms of processor time, with selectors that are not long. */
const mostOfStep = 500;

/**
 * NetworkPolicies that no pod has been compared with. What a comparison finds of a policy itself is kept, so the first one takes several
 * times as long as later ones: for the thousands of policies that a namespace may have, that is done in steps.
 */
export class UnreadPolicies {
  readonly #byNamespace = new Map<string, Set<NetworkPolicy>>();

  add(policy: NetworkPolicy): void {
    const { namespace } = policy.metadata;
    const policies = this.#byNamespace.get(namespace) ?? new Set();
    this.#byNamespace.set(namespace, policies.add(policy));
  }

  delete(policy: NetworkPolicy): void {
    const { namespace } = policy.metadata;
    const policies = this.#byNamespace.get(namespace);
    policies?.delete(policy);
    if (policies?.size === 0) this.#byNamespace.delete(namespace);
  }

  /** Reads some policies of a namespace. @returns whether all of them are read */
  readSome(namespace: string): boolean {
    let count = 0;
    for (const policy of this.#byNamespace.get(namespace) ?? []) {
      if (count++ === mostOfStep) return false;
      this.delete(policy);
      read(policy);
    }
    return true;
  }
}

function read(policy: NetworkPolicy): void {
  try {
    matchesLabels(subjectOf(policy), {});
    portsNamedBy([policy]);
    for (const direction of ["Ingress", "Egress"] as const) isAffordable([policy], direction);
  } catch {
    // It is reported where the rules of a pod are made with it.
  }
}
