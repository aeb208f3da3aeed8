import { matchesLabels } from "@kip/k8s-client";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { portsNamedBy } from "./named-ports.ts";
import { isAffordable, subjectOf } from "./policy-cost.ts";

/** Number of policies that are read in one step. This takes less than 20 ms unless their selectors are long. */
const maxPerStep = 500;

/**
 * NetworkPolicies that have not been compared with any pod. The first comparison of a policy takes several times as long as later ones,
 * because it reads the policy, and what it finds is cached. A namespace may have thousands of policies, so they are read in steps, before
 * its first pod is compared with them.
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
      if (count++ === maxPerStep) return false;
      this.delete(policy);
      read(policy);
    }
    return true;
  }
}

/** Fills the caches for later comparisons. */
function read(policy: NetworkPolicy): void {
  try {
    matchesLabels(subjectOf(policy), {});
    portsNamedBy([policy]);
    for (const direction of ["Ingress", "Egress"] as const) isAffordable([policy], direction);
  } catch {
    // The same error is thrown, and reported, when the rules of a pod are made.
  }
}
