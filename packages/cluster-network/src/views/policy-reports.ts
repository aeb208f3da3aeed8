import type { NetworkPolicy } from "@kip/k8s-types/network";
import type { PolicyRefusal } from "../policies/policy-budget.ts";
import type { PolicyChoice } from "../policies/policy-index.ts";
import { ofOnePod, ofPolicies, RefusalLog, type RefusalLogOptions } from "./refusal-log.ts";

/** Reports policies that have no rules, or are closed, as they are too large. */
export class PolicyReports {
  readonly #ofNamespaces: RefusalLog;
  readonly #ofPods: RefusalLog;

  constructor(options: RefusalLogOptions) {
    this.#ofNamespaces = new RefusalLog(options, ofPolicies);
    this.#ofPods = new RefusalLog(options, ofOnePod);
  }

  /** There is no room for a NetworkPolicy. */
  refused({ namespace, count, example }: PolicyRefusal): void {
    this.#ofNamespaces.report({ namespace, count, example: titleOf(example) }, example);
  }

  /** The policies of a pod are too large together: the event is that of the youngest NetworkPolicy; those of administrators are logged. */
  tooLarge({ pod: { namespace }, policies, tiers }: PolicyChoice): void {
    const [youngest] = policies.toSorted((a, b) => (rankOf(a) < rankOf(b) ? 1 : -1));
    const example = youngest ? titleOf(youngest) : titles(tiers);
    this.#ofPods.report({ namespace, example }, youngest);
  }
}

function titles(tiers: PolicyChoice["tiers"]): string {
  const first = tiers.slice(0, 3).map(({ title }) => title);
  return [...first, ...(tiers.length > 3 ? [`${tiers.length - 3} more`] : [])].join(", ");
}

function titleOf({ metadata }: NetworkPolicy): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function rankOf(policy: NetworkPolicy): string {
  return `${policy.metadata.creationTimestamp ?? ""} ${titleOf(policy)}`;
}
