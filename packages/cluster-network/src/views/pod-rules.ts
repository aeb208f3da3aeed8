import { defined } from "@kip/base";
import { groupsOf, hasTiers, type PolicyView } from "@kip/network-view";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import type { GroupChange } from "../policies/group.ts";
import type { PolicyChoice, PolicyIndex } from "../policies/policy-index.ts";
import { policiesWithRules, restricts, type PodPolicy } from "../policies/pod-policy.ts";
import { CellPolicy } from "./cell-policy.ts";
import {
  fittingPolicy,
  groupBytesOf,
  fitsEarlierAgents,
  maxGroupBytes,
  policyLine,
} from "./fitting-policy.ts";
import { GroupLines } from "./group-lines.ts";
import { largestTier, type PolicyReports } from "./policy-reports.ts";
import { ownerOf, RulesDrafts, type RulesDraft } from "./rules-drafts.ts";
import { maxRulesBytes, RulesBudget } from "./rules-budget.ts";

/** Reports closed directions of pods. */
export type RulesReports = Pick<PolicyReports, "tooLarge" | "tooMany">;

/** The rules of all pods that the same policies select. */
export interface PodRules {
  /** For agents of the newest `policyVersion`. */
  readonly whole: CellPolicy;
  /** For agents that support tiers, but only short lists (version 2). */
  readonly short: CellPolicy;
  /** For agents without support for tiers (version 1). */
  readonly plain: CellPolicy;
  /** The namespace whose policies name the groups of the rules, "" for administrators; absent if there are no groups. See {@link AddressGroups.hasOutdatedGroup}. */
  readonly owner?: string | undefined;
  /** Whether the policies have no deny rules. Then each group may show the cluster at a different time, see {@link TakeOptions.since}. */
  readonly isAllowOnly?: boolean | undefined;
}

/** How a pod gets its rules. */
export interface TakeOptions {
  /** The current rules of the pod. They do not count in the budget for its new rules. */
  readonly before?: PodRules | undefined;
  /**
   * The value of {@link AddressGroups.fills} since which the pod has the same policies. It is enough if each group was filled at some time
   * since then, also at different times: an address that the rules allow was allowed at one of these times. Not used with deny rules, because
   * an address that has moved from one group to another might then be in neither. @default all groups must be filled now
   */
  readonly since?: number | undefined;
}

interface Shared extends PodRules {
  readonly key: string;
  /** The namespace of the pods, if they have NetworkPolicies. */
  readonly namespace?: string | undefined;
  /** The bytes that the rules take from the budget of that namespace. 0 for closed rules of a pod that did not fit. */
  readonly size: number;
  /** The NetworkPolicies that the rules are made from, see {@link policiesWithRules}. */
  readonly policies: readonly NetworkPolicy[];
  /**
   * If there are tiers: the groups that the rules would name without a size limit. The rules change when the total size of these groups crosses
   * the limit. For NetworkPolicies alone there is a budget instead.
   */
  readonly held: ReadonlySet<string>;
  /** The size of these groups now. */
  bytes: number;
  /** Whether that size was within the limit when the rules were made. */
  readonly isWithinLimit: boolean;
  /** Groups whose addresses the rules name. */
  readonly groups: ReadonlySet<string>;
  /** Groups of port numbers that the rules are made from. */
  readonly numbers: ReadonlySet<string>;
  /** The groups in `numbers` of which only the first numbers have rules. */
  readonly cut: ReadonlySet<string>;
  pods: number;
}

/** New rules, and the groups that they need. */
interface FoundRules {
  readonly policy: PodPolicy;
  /** Groups that the rules would name without a size limit. */
  readonly named: ReadonlySet<string>;
  /** As in {@link Shared}. */
  readonly numbers: ReadonlySet<string>;
  readonly cut: ReadonlySet<string>;
}

/** Rules that restrict nothing. */
export const openRules: PodRules = unshared({});
/** Rules that let nothing pass. */
export const closedRules: PodRules = unshared({ ingress: [], egress: [] });

/** The rules of pods. They are made once for all pods that the same policies select, and kept while a cell has such a pod. */
export class SharedRules {
  readonly #index: PolicyIndex;
  readonly #reports: RulesReports;
  readonly #rulesBudget: RulesBudget;
  /** Rules of pods that exceed the budget, by namespace and closed directions. */
  readonly #closed = new Map<string, Shared>();
  readonly #byKey = new Map<string, Shared>();
  readonly #all = new Map<PodRules, Shared>();
  readonly #drafts: RulesDrafts;
  /** By `Shared.numbers`. */
  readonly #byNumbers = new Map<string, Set<Shared>>();
  /** By `Shared.held`. */
  readonly #byGroup = new Map<string, Set<Shared>>();
  readonly #lines = new Map<string, GroupLines>();
  /** Rules that must be replaced. */
  #outdated: PodRules[] = [];

  /** @param most the budget for the rules of one namespace, bytes. Default 32 Mi */
  constructor(index: PolicyIndex, reports: RulesReports, most: number = maxRulesBytes) {
    this.#index = index;
    this.#drafts = new RulesDrafts(index, (name, change, namespace) =>
      this.#use(name, change, namespace),
    );
    this.#reports = reports;
    this.#rulesBudget = new RulesBudget(most);
  }

  /** Lines of a group that a cell uses. */
  group(name: string): GroupLines | undefined {
    return this.#lines.get(name);
  }

  /** Returns rules for a pod, or a draft while they cannot be made. Both must be released later. */
  take(
    choice: PolicyChoice,
    options: TakeOptions = {},
  ): { readonly rules: PodRules } | { readonly draft: RulesDraft } {
    const since = choice.tiers.length === 0 ? options.since : undefined;
    const found = this.#drafts.unfilled(choice, since) ?? this.#find(choice, { ...options, since });
    if ("whole" in found) {
      found.pods++;
      return { rules: found };
    }
    this.#drafts.join(found, choice.pod.namespace);
    return { draft: found };
  }

  #find(choice: PolicyChoice, options: TakeOptions): Shared | RulesDraft {
    const { groups } = this.#index;
    const known = this.#byKey.get(choice.key);
    if (!known) return this.#make(choice, options);
    // Do not give a pod rules with outdated groups, because these may contain addresses that no longer belong there.
    const names = new Set([...known.groups, ...known.numbers]);
    const unfilled = new Set(
      [...names].filter((name) => !groups.hasAddresses(name, options.since)),
    );
    if (unfilled.size === 0) return known;
    return this.#drafts.make({ choice, groups: names, unfilled, needsAddresses: true });
  }

  /** Whether rules can now be made from a draft. */
  isFilled(draft: RulesDraft): boolean {
    return this.#drafts.isFilled(draft);
  }

  /** Call this when a pod no longer waits for a draft. */
  releaseDraft(draft: RulesDraft | undefined): void {
    this.#drafts.release(draft);
  }

  /** Call this when a pod no longer has rules that {@link SharedRules.take} returned. */
  release(rules: PodRules | undefined): void {
    const shared = rules && this.#all.get(rules);
    if (!shared || --shared.pods > 0) return;
    this.#all.delete(shared);
    if (this.#closed.get(shared.key) === shared) this.#closed.delete(shared.key);
    const { namespace, size } = shared;
    if (namespace !== undefined && this.#rulesBudget.count(namespace, -size))
      for (const closed of this.#closed.values())
        if (closed.namespace === namespace) this.#markOutdated(closed);
    if (this.#byKey.get(shared.key) === shared) this.#byKey.delete(shared.key);
    removeFrom(this.#byNumbers, shared.numbers, shared);
    removeFrom(this.#byGroup, shared.held, shared);
    for (const policy of shared.policies) this.#index.budget.use(policy, -1);
    for (const name of shared.held) this.#index.groups.hold(name, -1, namespace);
    for (const name of [...shared.groups, ...shared.numbers]) this.#use(name, -1, namespace);
  }

  #use(name: string, change: 1 | -1, namespace?: string): void {
    if (this.#index.groups.use(name, change, namespace) === 0) this.#lines.delete(name);
  }

  /** Processes a change of a group: updates its lines, and marks rules that depend on it as outdated. @returns whether its lines have changed */
  change(name: string, change: GroupChange, version: number): boolean {
    const { isChanged, isReranked } = change;
    for (const shared of isChanged || isReranked ? (this.#byNumbers.get(name) ?? []) : [])
      if (isChanged || shared.cut.has(name)) this.#markOutdated(shared);
    this.#index.budget.noteChange(name);
    for (const shared of this.#byGroup.get(name) ?? []) {
      shared.bytes += change.bytes;
      if (shared.bytes <= maxGroupBytes !== shared.isWithinLimit) this.#markOutdated(shared);
    }
    const lines = isChanged ? this.#lines.get(name) : undefined;
    lines?.change(change, version);
    return lines !== undefined;
  }

  /** Whether {@link SharedRules.takeOutdated} has something to return. */
  hasOutdated(): boolean {
    this.#settleBudget();
    return this.#outdated.length > 0;
  }

  /** Rules that have become outdated since the last call. Pods with these rules need new ones. */
  takeOutdated(): readonly PodRules[] {
    this.#settleBudget();
    const outdated = this.#outdated;
    this.#outdated = [];
    return outdated;
  }

  #settleBudget(): void {
    const changed = this.#index.budget.settle();
    if (changed.size === 0) return;
    for (const shared of this.#all.values())
      if (shared.policies.some((policy) => changed.has(policy))) this.#markOutdated(shared);
  }

  #markOutdated(shared: Shared): void {
    if (this.#byKey.get(shared.key) === shared) this.#byKey.delete(shared.key);
    this.#outdated.push(shared);
  }

  /** Counts policies in the budget. @returns the groups that must be filled first */
  #charge(
    policies: readonly NetworkPolicy[],
    isFilled: (group: string) => boolean,
  ): readonly string[] {
    const { budget } = this.#index;
    try {
      return budget.charge(policies, isFilled);
    } catch (error) {
      for (const policy of policies)
        for (const change of [1, -1] as const) budget.use(policy, change);
      throw error;
    }
  }

  #make(choice: PolicyChoice, { before, since }: TakeOptions): Shared | RulesDraft {
    const { groups } = this.#index;
    const policies = policiesWithRules(choice);
    const namespace = ownerOf(choice);
    if (
      namespace !== undefined &&
      this.#rulesBudget.isFull(namespace, this.#sizeOf(before, namespace))
    )
      return this.#close(choice);
    const counted = this.#charge(policies, (name) => groups.isFilled(name, since));
    if (counted.length > 0) {
      const [all, unfilled] = [new Set(counted), new Set(counted)];
      return this.#drafts.make({ choice, groups: all, unfilled, needsAddresses: false });
    }
    this.#settleBudget();
    const found = this.#findRules(choice);
    const all = new Set([...found.named, ...found.numbers]);
    const unfilled = new Set([...all].filter((name) => !groups.hasAddresses(name, since)));
    if (unfilled.size > 0)
      return this.#drafts.make({ choice, groups: all, unfilled, needsAddresses: true });
    this.#drafts.forget(choice);
    const shared = this.#shared(choice, policies, found);
    this.#keep(shared);
    return shared;
  }

  /** Makes the rules of a pod, and records which groups they need. */
  #findRules(choice: PolicyChoice): FoundRules {
    const { groups } = this.#index;
    const named = new Set<string>();
    const numbers = new Set<string>();
    const cut = new Set<string>();
    const find = (): PodPolicy =>
      this.#index.rulesOf(choice, {
        name: (selector) => {
          const name = groups.name(selector);
          named.add(name);
          return name;
        },
        portNumbers: (selector, port, most) => {
          const numbersOf = groups.numbersName(selector, port);
          numbers.add(numbersOf);
          if (most !== undefined) cut.add(numbersOf);
          return groups.portNumbers(selector, port, most);
        },
      });
    return { policy: this.#forgetOnError(find, [named, numbers]), named, numbers, cut };
  }

  /** The shared rules of pods with these policies. Reports directions that are closed because their rules are too large. */
  #shared(choice: PolicyChoice, policies: readonly NetworkPolicy[], found: FoundRules): Shared {
    const { groups } = this.#index;
    const { policy, numbers, cut } = found;
    const { view: wanted } = policy;
    const fitting = fittingPolicy(wanted, groups);
    const areOver = [policy.ingress, policy.egress].some((one) => one.isOverLimits);
    const isClosed = fitting.policy !== wanted;
    if (areOver || isClosed)
      this.#reports.tooLarge(choice, isClosed ? largestTier(choice, policy, groups) : undefined);
    const whole = new CellPolicy(fitting);
    const ofVersion = (version: number) => new CellPolicy(fittingPolicy(wanted, groups, version));
    const short = fitsEarlierAgents(wanted) ? whole : ofVersion(2);
    const plain = hasTiers(wanted) ? ofVersion(1) : short;
    const used = new Set([...whole.groups, ...short.groups, ...plain.groups]);
    const held = hasTiers(wanted) ? groupsOf(wanted) : new Set<string>();
    const bytes = groupBytesOf(held, groups);
    let size = choice.key.length + 8 * policies.length;
    for (const line of new Set([whole.line, short.line, plain.line])) size += line.length;
    const namespace = ownerOf(choice);
    return {
      key: choice.key,
      owner: used.size > 0 ? (namespace ?? "") : undefined,
      isAllowOnly: choice.tiers.length === 0,
      namespace,
      size,
      policies,
      held,
      bytes,
      isWithinLimit: bytes <= maxGroupBytes,
      whole,
      short,
      plain,
      groups: used,
      numbers,
      cut,
      pods: 0,
    };
  }

  /** Stores rules, and the groups and policies that they need, until no pod has them. */
  #keep(shared: Shared): void {
    const { groups, budget } = this.#index;
    const { key, namespace, size, policies, held, numbers, groups: used } = shared;
    for (const name of held) groups.hold(name, 1, namespace);
    for (const name of [...used, ...numbers]) this.#use(name, 1, namespace);
    for (const policy of policies) budget.use(policy, 1);
    for (const name of used)
      if (!this.#lines.has(name))
        this.#lines.set(name, new GroupLines(name, groups.takeAddresses(name)));
    addTo(this.#byNumbers, numbers, shared);
    addTo(this.#byGroup, held, shared);
    if (namespace !== undefined) this.#rulesBudget.count(namespace, size);
    this.#byKey.set(key, shared);
    this.#all.set(shared, shared);
  }

  /** The bytes that rules take from the budget of a namespace. */
  #sizeOf(rules: PodRules | undefined, namespace: string): number {
    const shared = rules && this.#all.get(rules);
    return shared?.namespace === namespace ? shared.size : 0;
  }

  /** Rules for a pod that exceeds the budget: restricted directions are closed, and nothing is computed for them. */
  #close(choice: PolicyChoice): Shared {
    this.#reports.tooMany(choice);
    this.#drafts.forget(choice);
    const closed = closedDirections(choice);
    const key = `${choice.pod.namespace} ${Object.keys(closed).join()}`;
    const policy = new CellPolicy(policyLine(closed));
    const none = new Set<string>();
    const shared: Shared = this.#closed.get(key) ?? {
      key,
      namespace: choice.pod.namespace,
      size: 0,
      policies: [],
      held: none,
      bytes: 0,
      isWithinLimit: true,
      whole: policy,
      short: policy,
      plain: policy,
      groups: none,
      numbers: none,
      cut: none,
      pods: 0,
    };
    this.#closed.set(key, shared);
    this.#all.set(shared, shared);
    return shared;
  }

  /** Calls `find`. If policies cannot be read, deletes the groups that were created for them. */
  #forgetOnError<T>(find: () => T, lists: readonly ReadonlySet<string>[]): T {
    try {
      return find();
    } catch (error) {
      for (const name of lists.flatMap((list) => [...list]))
        for (const change of [1, -1] as const) this.#index.groups.hold(name, change);
      throw error;
    }
  }
}

function closedDirections({ policies, tiers }: PolicyChoice): PolicyView {
  const isRestricted = (direction: "Ingress" | "Egress", field: "ingress" | "egress"): boolean =>
    policies.some((policy) => restricts(policy, direction)) ||
    tiers.some(({ [field]: rules }) => rules.length > 0);
  return defined({
    ingress: isRestricted("Ingress", "ingress") ? [] : undefined,
    egress: isRestricted("Egress", "egress") ? [] : undefined,
  });
}

function addTo(map: Map<string, Set<Shared>>, names: Iterable<string>, shared: Shared): void {
  for (const name of names) map.set(name, (map.get(name) ?? new Set()).add(shared));
}

function removeFrom(map: Map<string, Set<Shared>>, names: Iterable<string>, shared: Shared): void {
  for (const name of names) {
    const others = map.get(name);
    others?.delete(shared);
    if (others?.size === 0) map.delete(name);
  }
}

function unshared(policy: PolicyView): PodRules {
  const whole = new CellPolicy(policyLine(policy));
  return { whole, short: whole, plain: whole };
}
