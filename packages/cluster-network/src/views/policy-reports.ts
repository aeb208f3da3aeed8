import { referenceTo, type EventReference } from "@kip/k8s-client";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import type { AddressGroups } from "../policies/address-groups.ts";
import type { PodPolicy } from "../policies/pod-policy.ts";
import type { PolicyRefusal } from "../policies/policy-budget.ts";
import type { PolicyChoice } from "../policies/policy-index.ts";
import type { TierPolicy } from "../policies/tier-policy.ts";
import { groupBytesOf } from "./fitting-policy.ts";
import {
  ofOnePod,
  ofPolicies,
  ofTiers,
  ofRules,
  RefusalLog,
  type RefusalLogOptions,
} from "./refusal-log.ts";

/** Reports policies without rules, and closed directions, because policies are too large. */
export class PolicyReports {
  readonly #ofNamespaces: RefusalLog;
  readonly #ofPods: RefusalLog;
  readonly #ofTiers: RefusalLog;
  readonly #ofRules: RefusalLog;

  constructor(options: RefusalLogOptions) {
    this.#ofNamespaces = new RefusalLog(options, ofPolicies);
    this.#ofPods = new RefusalLog(options, ofOnePod);
    this.#ofTiers = new RefusalLog(options, ofTiers);
    this.#ofRules = new RefusalLog(options, ofRules);
  }

  /** Reports a NetworkPolicy that exceeds the budget of its namespace. */
  refused({ namespace, count, example }: PolicyRefusal): void {
    this.#ofNamespaces.report({ namespace, count, example: titleOf(example) }, aboutOf(example));
  }

  /**
   * Reports that the policies of a pod are too large in total. The youngest NetworkPolicy gets an event.
   *
   * @param largest the largest administrator's policy, if these are too large. It also gets an event
   */
  tooLarge(choice: PolicyChoice, largest: TierPolicy | undefined): void {
    reportYoungest(this.#ofPods, choice);
    const { namespace } = choice.pod;
    if (largest) this.#ofTiers.report({ namespace, example: largest.title }, largest.about);
  }

  /** Reports a pod whose rules do not fit, because those of the namespace's pods are too large in total. */
  tooMany(choice: PolicyChoice): void {
    reportYoungest(this.#ofRules, choice);
  }
}

/** The administrator's policy with the largest rules and addresses. */
export function largestTier(
  { tiers }: PolicyChoice,
  { view, ...origins }: PodPolicy,
  groups: Pick<AddressGroups, "sizeOf">,
): TierPolicy | undefined {
  const bytes = new Map<string, number>();
  for (const tier of ["admin", "baseline"] as const)
    for (const direction of ["ingress", "egress"] as const)
      for (const [index, rule] of (view[tier]?.[direction] ?? []).entries()) {
        const title = origins[direction][tier][index] ?? "";
        const size = JSON.stringify(rule).length + groupBytesOf(new Set(rule.groups), groups);
        bytes.set(title, (bytes.get(title) ?? 0) + size);
      }
  const sizeOf = ({ title }: TierPolicy): number => bytes.get(title) ?? 0;
  return tiers.toSorted((a, b) => sizeOf(b) - sizeOf(a)).find((policy) => sizeOf(policy) > 0);
}

function reportYoungest(log: RefusalLog, { pod: { namespace }, policies }: PolicyChoice): void {
  const [youngest] = policies.toSorted((a, b) => (rankOf(a) < rankOf(b) ? 1 : -1));
  if (youngest) log.report({ namespace, example: titleOf(youngest) }, aboutOf(youngest));
}

function aboutOf(policy: NetworkPolicy): EventReference {
  return referenceTo(policy, { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy" });
}

function titleOf({ metadata }: NetworkPolicy): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function rankOf(policy: NetworkPolicy): string {
  return `${policy.metadata.creationTimestamp ?? ""} ${titleOf(policy)}`;
}
