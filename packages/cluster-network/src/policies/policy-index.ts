import type { EndpointSlice, LabelSelector, NetworkPolicy } from "@kip/k8s-types/network";
import { AddressGroups } from "./address-groups.ts";
import { type GroupSelector } from "./group-selector.ts";
import { portsNamedBy } from "./named-ports.ts";
import { NodeAddresses } from "./node-addresses.ts";
import type { Cost } from "../budget/namespace-budget.ts";
import type { PodFacts } from "./pod-facts.ts";
import { maxPoliciesCost, PolicyBudget } from "./policy-budget.ts";
import { hasLongSubject, isComparable, subjectOf } from "./policy-cost.ts";
import { podPolicy, policiesWithRules, type GroupNames, type PodPolicy } from "./pod-policy.ts";
import { matchesLabels, type Labels } from "@kip/k8s-client";
import { standInOf, standInUid } from "./stand-in.ts";
import type { TierPolicy } from "./tier-policy.ts";
import { UnreadPolicies } from "./unread-policies.ts";

/** The policies that select a pod. */
export interface PolicyChoice {
  readonly pod: PodFacts;
  readonly policies: readonly NetworkPolicy[];
  readonly tiers: readonly TierPolicy[];
  /** Whether the pod has too many labels to be compared with long selectors. If so, all policies with a long selector apply to it. */
  readonly hasTooManyLabels: boolean;
  /** Equal for pods that have the same rules, as long as no group of port numbers changes. */
  readonly key: string;
}

/** The pods that a change of a policy affects. */
export interface PolicyChange {
  /** Pods that a changed policy selects, or selected before. */
  readonly subjects: readonly GroupSelector[];
  /** Whether it is the first policy, or was the last one. Then it also affects pods that are not known yet. */
  readonly isFirstOrLast: boolean;
}

/** Policies of administrators for the pods of one namespace. */
interface NamespaceTiers {
  readonly policies: readonly TierPolicy[];
  /** The policies that do not apply to every pod of the namespace. */
  readonly selective: ReadonlySet<TierPolicy>;
  /** Names of ports in their ingress rules, which refer to the pods' own ports. */
  readonly portNames: readonly string[];
  readonly key: string;
}

/** Stores the policies of the cluster, and computes those of each pod. */
export class PolicyIndex {
  readonly groups = new AddressGroups();
  readonly nodes = new NodeAddresses(this.groups);
  /** Decides which NetworkPolicies have no rules, because those of their namespace match too many addresses. */
  readonly budget: PolicyBudget;
  readonly #byNamespace = new Map<string, Map<string, NetworkPolicy>>();
  readonly #unread = new UnreadPolicies();
  /** Policies of administrators by kind and name. */
  readonly #tiers = new Map<string, TierPolicy>();
  /** By the object with the labels of the namespace. Keys are weak, so that entries of deleted namespaces disappear. */
  #tiersOf = new WeakMap<Labels, NamespaceTiers>();
  /** A number for each state of a policy. */
  readonly #numbers = new WeakMap<object, number>();
  #lastNumber = 0;

  /** @param most the budget for the NetworkPolicies of one namespace */
  constructor(most: Cost = maxPoliciesCost) {
    this.budget = new PolicyBudget(this.groups, most);
  }

  /** Sets or deletes a policy. @returns undefined if nothing has changed */
  setPolicy(policy: NetworkPolicy, isGone = false): PolicyChange | undefined {
    const { namespace, uid } = policy.metadata;
    const policies = this.#byNamespace.get(namespace) ?? new Map<string, NetworkPolicy>();
    const before = policies.get(uid);
    if (!isGone && before && JSON.stringify(before.spec) === JSON.stringify(policy.spec))
      return undefined;
    const wereSome = policies.size > 0;
    if (before) this.#unread.delete(before);
    if (isGone) policies.delete(uid);
    else {
      policies.set(uid, policy);
      this.#unread.add(policy);
    }
    if (policies.size > 0) this.#byNamespace.set(namespace, policies);
    else this.#byNamespace.delete(namespace);
    const states = before ? [before, policy] : [policy];
    return {
      subjects: states.map((each) => ({ namespace, podSelector: subjectOf(each) })),
      isFirstOrLast: wereSome !== policies.size > 0,
    };
  }

  /**
   * Sets or deletes an EndpointSlice. Policies select the name server of `kip up` by one, see {@link standInOf}.
   *
   * @returns whether the slice has the name of that one
   */
  setSlice(slice: EndpointSlice, isGone = false): boolean {
    const { namespace, name } = slice.metadata;
    const isNamed = `${namespace}/${name}` === standInUid;
    // A slice of this name may have got another manager. Then standInOf() returns undefined.
    if (isNamed) this.groups.setPod(standInUid, isGone ? undefined : standInOf(slice));
    return isNamed;
  }

  /** Sets an administrator's policy. Undefined if it was deleted. @returns undefined if nothing has changed */
  setTierPolicy(title: string, policy: TierPolicy | undefined): PolicyChange | undefined {
    const before = this.#tiers.get(title);
    if (JSON.stringify(before) === JSON.stringify(policy)) return undefined;
    const wereSome = this.hasTiers;
    if (policy) this.#tiers.set(title, policy);
    else this.#tiers.delete(title);
    this.#tiersOf = new WeakMap();
    return {
      subjects: [before, policy].flatMap((each) => each?.subject ?? []),
      isFirstOrLast: wereSome !== this.hasTiers,
    };
  }

  /** Whether there is a policy of an administrator. */
  get hasTiers(): boolean {
    return this.#tiers.size > 0;
  }

  /** Whether pods of a namespace may have policies. */
  mayApplyTo(namespace: string): boolean {
    return this.hasTiers || this.#byNamespace.has(namespace);
  }

  /**
   * Reads some policies of a namespace. Call this until all are read, before {@link PolicyIndex.choiceOf}, which would otherwise read all
   * of them in one go.
   *
   * @returns whether all are read
   */
  readSome(namespace: string): boolean {
    return this.#unread.readSome(namespace);
  }

  /**
   * The policies of a pod. Undefined if the pod is not known, or if there are administrators' policies and the labels of the pod's
   * namespace are not known.
   */
  choiceOf(podUid: string): PolicyChoice | undefined {
    const pod = this.groups.pod(podUid);
    if (!pod) return undefined;
    const ofNamespace = this.#tiersOfNamespace(pod.namespace);
    if (!ofNamespace) return undefined;
    const { selective } = ofNamespace;
    const isSelected = (tier: TierPolicy): boolean =>
      !selective.has(tier) || matchesLabels(tier.subject.podSelector, pod.labels);
    const tiers = selective.size > 0 ? ofNamespace.policies.filter(isSelected) : undefined;
    const neighbours = [...(this.#byNamespace.get(pod.namespace)?.values() ?? [])];
    const hasTooManyLabels = !isComparable(pod.labels, neighbours);
    const policies = neighbours.filter(
      (policy) =>
        (hasTooManyLabels && hasLongSubject(policy)) ||
        matchesLabels(subjectOf(policy), pod.labels),
    );
    // Named ports of ingress rules are the pod's own.
    const named = new Set([...ofNamespace.portNames, ...portsNamedBy(policies)]);
    const own = named.size > 0 ? pod.ports.filter(({ name }) => named.has(name)) : [];
    const tiersKey = tiers ? this.#keyOf(tiers) : ofNamespace.key;
    const key = `${this.#keyOf(policies)} ${tiersKey} ${JSON.stringify(own)} ${hasTooManyLabels}`;
    return { pod, policies, tiers: tiers ?? ofNamespace.policies, hasTooManyLabels, key };
  }

  /**
   * The combined policy of a pod. It is only complete if the groups that it names are filled, see {@link AddressGroups.isFilled}, and if
   * its NetworkPolicies were charged.
   *
   * @param groups provides the names of groups
   */
  rulesOf({ pod, ...choice }: PolicyChoice, groups: GroupNames = this.groups): PodPolicy {
    const isRefused = (policy: NetworkPolicy): boolean => this.budget.isRefused(policy);
    return podPolicy(pod, { ...choice, isRefused }, groups);
  }

  /** Counts the NetworkPolicies of pods in the budget, to find out which of them have rules. Ignores policies that cannot be read. */
  charge(podUids: Iterable<string>): void {
    const chosen = new Set<NetworkPolicy>();
    for (const uid of this.#onePerSelection(podUids)) {
      const choice = readable(() => this.choiceOf(uid));
      for (const policy of choice ? policiesWithRules(choice) : []) chosen.add(policy);
    }
    const unfilled = (policy: NetworkPolicy): readonly string[] =>
      readable(() => this.budget.charge([policy])) ?? [];
    while ([...chosen].flatMap(unfilled).length > 0) this.groups.settle();
    this.budget.settle();
  }

  /** The combined policy of a pod, computed in one go. Undefined as in {@link PolicyIndex.choiceOf}. */
  policyOf(podUid: string): PodPolicy | undefined {
    const choice = this.choiceOf(podUid);
    if (!choice) return undefined;
    for (;;) {
      this.groups.settle();
      const policy = this.rulesOf(choice);
      if (this.groups.isSettled) return policy;
    }
  }

  /** Of pods that the same NetworkPolicies select, only one. */
  #onePerSelection(podUids: Iterable<string>): Iterable<string> {
    const found = new Map<string, string>();
    for (const uid of podUids) {
      const { namespace, labels, ports } = this.groups.pod(uid) ?? {};
      found.set(JSON.stringify([namespace, labels, ports]), uid);
    }
    return found.values();
  }

  #tiersOfNamespace(namespace: string): NamespaceTiers | undefined {
    if (!this.hasTiers) return noTiers;
    const labels = this.groups.namespaceLabels(namespace);
    if (!labels) return undefined;
    const known = this.#tiersOf.get(labels);
    if (known) return known;
    const policies = [...this.#tiers.values()].filter(({ subject }) =>
      matchesLabels(subject.namespaceSelector, labels),
    );
    const made = {
      policies,
      selective: new Set(policies.filter(({ subject }) => !isEmpty(subject.podSelector))),
      portNames: portsNamedBy(policies),
      key: this.#keyOf(policies),
    };
    this.#tiersOf.set(labels, made);
    return made;
  }

  #keyOf(policies: readonly object[]): string {
    return policies.map((policy) => this.#numberOf(policy)).join();
  }

  #numberOf(policy: object): number {
    const number = this.#numbers.get(policy) ?? ++this.#lastNumber;
    this.#numbers.set(policy, number);
    return number;
  }
}

const noTiers: NamespaceTiers = {
  policies: [],
  selective: new Set(),
  portNames: [],
  key: "",
};

function readable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function isEmpty({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  return Object.keys(matchLabels).length + matchExpressions.length === 0;
}
