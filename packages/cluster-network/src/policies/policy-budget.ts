import type { NetworkPolicy } from "@kip/k8s-types/network";
import { NamespaceBudget, type Cost } from "../budget/namespace-budget.ts";
import type { AddressGroups } from "./address-groups.ts";
import { termsOf } from "./policy-cost.ts";
import { selectorsOf } from "./policy-selectors.ts";
import { fairShare, maxNumbersOfList } from "./port-numbers.ts";

/**
 * How many addresses the selectors of one namespace's NetworkPolicies may match: 250,000. Each address counts once for each selector. A
 * selector itself counts as 50 addresses, or as 10 for each of its labels, expressions and values if that is more. Kip needs about 260 bytes
 * of memory for an address. The bytes are limited because a cell may get all of them in one change, with those for administrators' policies.
 */
export const maxPoliciesCost: Cost = { elements: 250_000, bytes: 8 * 1024 * 1024 };

/** The cost of a selector itself, in addresses. */
const perSelector = 50;

/** The cost of each of its labels, expressions and values, in addresses. Each changed pod is compared with all of them. */
const perTerm = 10;

/** Number of unfilled groups after which {@link PolicyBudget.charge} returns, because naming one takes about 10 µs. The caller repeats the call when they are filled. */
const maxUnfilled = 512;

/** NetworkPolicies that exceed the budget of their namespace. */
export interface PolicyRefusal {
  readonly namespace: string;
  /** How many policies of the namespace have no rules now. */
  readonly count: number;
  /** A policy that has lost its rules, or got none. */
  readonly example: NetworkPolicy;
}

/** A policy that rules are made from. */
interface Charge {
  readonly policy: NetworkPolicy;
  readonly key: string;
  /** Names of its groups. Undefined until they are counted, and while its selectors alone exceed the budget. */
  groups: string[] | undefined;
  isWeighed: boolean;
  uses: number;
}

/**
 * Decides which NetworkPolicies get rules, if those of a namespace match more addresses than allowed. Policies are considered from the oldest
 * to the youngest. A policy gets rules if it fits into the budget beside the older ones. Only policies that a cell's rules are made from count.
 *
 * The groups of a policy are counted before their addresses are stored, and for as long as the policy is used. So a policy loses its rules
 * when its groups grow too large, and gets them back when they shrink.
 */
export class PolicyBudget {
  readonly #groups: AddressGroups;
  /** Counts selectors alone. If a policy does not fit here, its groups are not created at all. */
  readonly #selectors: NamespaceBudget;
  readonly #addresses: NamespaceBudget;
  readonly #charges = new Map<NetworkPolicy, Charge>();
  /** The newest state of each policy, by namespace and name. */
  readonly #newest = new Map<string, Charge>();
  readonly #byGroup = new Map<string, Set<Charge>>();
  /** Policies whose groups have changed. A set, so that a pod in several groups of a policy causes only one calculation. */
  readonly #unweighed = new Set<Charge>();
  /** Policies that were refused or admitted because of their selectors alone, since the last {@link PolicyBudget.settle}. */
  readonly #refused = new Set<string>();
  readonly #admitted = new Set<string>();
  /** Called when policies of a namespace start to be refused. */
  onRefused: ((refusal: PolicyRefusal) => void) | undefined;

  constructor(groups: AddressGroups, most: Cost = maxPoliciesCost) {
    this.#groups = groups;
    this.#selectors = new NamespaceBudget(most);
    this.#addresses = new NamespaceBudget(most);
  }

  /**
   * Counts policies from now on, until they are no longer used. Pass all policies of a namespace in one call, because each call decides again
   * which of them fit.
   *
   * @param isFilled whether a group is filled, so that it can be counted
   * @returns names of groups that must be filled first. Call again after that, because there may be more
   * @throws TypeError if a selector cannot be read
   */
  charge(
    policies: readonly NetworkPolicy[],
    isFilled: (group: string) => boolean = (group) => this.#groups.isFilled(group),
  ): readonly string[] {
    const charges = policies.map((policy) => this.#charges.get(policy) ?? this.#begin(policy));
    this.#settleSelectors();
    const unfilled: string[] = [];
    for (const charge of charges) {
      if (unfilled.length >= maxUnfilled) break;
      unfilled.push(...this.#unfilledOf(charge, isFilled));
    }
    return unfilled;
  }

  #unfilledOf(charge: Charge, isFilled: (group: string) => boolean): readonly string[] {
    if (this.#selectors.isRefused(charge.key)) return [];
    const names = charge.groups ?? this.#count(charge);
    const unfilled = names.filter((name) => !isFilled(name));
    if (unfilled.length === 0 && !charge.isWeighed) this.#weigh(charge);
    return unfilled;
  }

  /** Counts a use of a charged policy by rules (1), or its end (-1). An unused policy is removed. */
  use(policy: NetworkPolicy, change: 1 | -1): void {
    const charge = this.#charges.get(policy);
    if (!charge) return;
    charge.uses += change;
    if (charge.uses > 0) return;
    this.#charges.delete(policy);
    this.#endCount(charge);
    if (this.#newest.get(charge.key) !== charge) return;
    this.#newest.delete(charge.key);
    for (const budget of [this.#selectors, this.#addresses]) budget.set(charge.key, "", undefined);
  }

  /** Call this when a group has changed. */
  noteChange(group: string): void {
    for (const charge of this.#byGroup.get(group) ?? []) this.#unweighed.add(charge);
  }

  /** Decides again for namespaces whose costs have changed. @returns policies that lose their rules, or may have rules again */
  settle(): ReadonlySet<NetworkPolicy> {
    this.#settleSelectors();
    for (const charge of this.#unweighed) if (charge.isWeighed) this.#weigh(charge);
    this.#unweighed.clear();
    const { refused, admitted } = this.#addresses.settle();
    const refusedNow = this.#policies(new Set([...this.#refused, ...refused]));
    const admittedNow = this.#policies(new Set([...this.#admitted, ...admitted]));
    for (const keys of [this.#refused, this.#admitted]) keys.clear();
    for (const example of new Map(refusedNow.map((p) => [p.metadata.namespace, p])).values())
      this.#report(example);
    return new Set([...refusedNow, ...admittedNow]);
  }

  /** Whether a policy was refused at the last {@link PolicyBudget.settle}. */
  isRefused({ metadata: { namespace, name } }: NetworkPolicy): boolean {
    const key = `${namespace}/${name}`;
    return this.#selectors.isRefused(key) || this.#addresses.isRefused(key);
  }

  #report(example: NetworkPolicy): void {
    const { namespace } = example.metadata;
    const budgets = [this.#selectors, this.#addresses];
    const count = budgets.reduce((sum, budget) => sum + budget.refusedCount(namespace), 0);
    this.onRefused?.({ namespace, count, example });
  }

  #settleSelectors(): void {
    const { refused, admitted } = this.#selectors.settle();
    for (const key of admitted) this.#admitted.add(key);
    for (const key of refused) {
      this.#refused.add(key);
      const charge = this.#newest.get(key);
      if (charge) this.#endCount(charge);
      this.#addresses.set(key, "", undefined);
    }
  }

  #policies(keys: ReadonlySet<string>): readonly NetworkPolicy[] {
    return [...keys].flatMap((key) => this.#newest.get(key)?.policy ?? []);
  }

  #begin(policy: NetworkPolicy): Charge {
    const { namespace, name } = policy.metadata;
    const charge: Charge = {
      policy,
      key: `${namespace}/${name}`,
      groups: undefined,
      isWeighed: false,
      uses: 0,
    };
    let elements = 0;
    for (const { namespaceSelector, podSelector } of selectorsOf(policy))
      elements += Math.max(
        perSelector,
        perTerm * (termsOf(namespaceSelector) + termsOf(podSelector)),
      );
    this.#charges.set(policy, charge);
    this.#newest.set(charge.key, charge);
    this.#selectors.set(charge.key, createdAt(policy), { elements, bytes: 0 });
    return charge;
  }

  #count(charge: Charge): readonly string[] {
    const names = new Set<string>();
    charge.groups = [];
    for (const selector of selectorsOf(charge.policy)) {
      const name = this.#groups.name(selector);
      if (names.has(name)) continue;
      names.add(name);
      this.#groups.hold(name, 1, charge.policy.metadata.namespace);
      this.#byGroup.set(name, (this.#byGroup.get(name) ?? new Set()).add(charge));
      charge.groups.push(name);
    }
    return charge.groups;
  }

  #endCount(charge: Charge): void {
    for (const name of charge.groups ?? []) {
      this.#groups.hold(name, -1, charge.policy.metadata.namespace);
      const others = this.#byGroup.get(name);
      others?.delete(charge);
      if (others?.size === 0) this.#byGroup.delete(name);
    }
    charge.groups = undefined;
    charge.isWeighed = false;
  }

  #weigh(charge: Charge): void {
    charge.isWeighed = true;
    if (this.#newest.get(charge.key) !== charge) return;
    const cost = { elements: 0, bytes: 0 };
    const counts: number[] = [];
    for (const name of charge.groups ?? []) {
      const { addresses, bytes, numbers } = this.#groups.sizeOf(name);
      counts.push(numbers);
      cost.elements += addresses + perSelector;
      cost.bytes += bytes;
    }
    // Each number of a named port with rules has a separate group.
    const most = fairShare(counts, maxNumbersOfList);
    for (const count of counts) cost.elements += perSelector * Math.min(count, most);
    this.#addresses.set(charge.key, createdAt(charge.policy), cost);
  }
}

function createdAt({ metadata }: NetworkPolicy): string {
  return metadata.creationTimestamp ?? "";
}
