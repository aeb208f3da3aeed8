import type { NetworkPolicy } from "@kip/k8s-types/network";
import { policiesWithRules } from "../policies/pod-policy.ts";
import type { PolicyChoice, PolicyIndex } from "../policies/policy-index.ts";

/** Rules that cannot be made or used yet, because some groups are not filled. A draft keeps these groups while a pod waits for it. */
export interface RulesDraft {
  readonly key: string;
  /** The namespace of the pods, if they have NetworkPolicies. */
  readonly namespace: string | undefined;
  readonly groups: ReadonlySet<string>;
  /** The groups that may not have been filled since the draft was made. */
  readonly unfilled: Set<string>;
  /** The value of {@link AddressGroups.fills} when the draft was made. */
  readonly since: number;
  /** Namespaces of the waiting pods. */
  readonly namespaces: Set<string>;
  readonly policies: readonly NetworkPolicy[];
  /** Whether the addresses of the groups are stored, and not only their sizes. A group may be outdated again before the last one is filled. */
  readonly storesAddresses: boolean;
  pods: number;
}

/** Options of {@link RulesDrafts.make}. */
export interface DraftOptions {
  readonly choice: PolicyChoice;
  readonly groups: ReadonlySet<string>;
  readonly unfilled: Set<string>;
  /** Whether rules need the addresses of the groups, and not only their sizes. */
  readonly needsAddresses: boolean;
}

/** Counts a use of a group (1), or its end (-1). */
type Use = (group: string, change: 1 | -1, namespace?: string) => void;

/** Drafts of rules. All pods that the same policies select wait for the same draft. */
export class RulesDrafts {
  readonly #index: PolicyIndex;
  readonly #use: Use;
  readonly #byKey = new Map<string, RulesDraft>();

  constructor(index: PolicyIndex, use: Use) {
    this.#index = index;
    this.#use = use;
  }

  /**
   * The draft that pods with these policies wait for. Undefined if there is none, or if its groups are filled.
   *
   * @param since see {@link AddressGroups.isFilled}. The pod may have these policies for longer than the draft exists
   */
  unfilled(choice: PolicyChoice, since: number | undefined): RulesDraft | undefined {
    const draft = this.#byKey.get(choice.key);
    return draft && !this.isFilled(draft) && !this.#areAllFilled(draft, since) ? draft : undefined;
  }

  #areAllFilled(
    { groups: names, storesAddresses }: RulesDraft,
    since: number | undefined,
  ): boolean {
    const { groups } = this.#index;
    const has = storesAddresses ? "hasAddresses" : "isFilled";
    for (const name of names) if (!groups[has](name, since)) return false;
    return true;
  }

  /** Whether each group of a draft has been filled since the draft was made. */
  isFilled({ unfilled, since }: RulesDraft): boolean {
    for (const name of unfilled) {
      if (!this.#index.groups.isFilled(name, since)) return false;
      unfilled.delete(name);
    }
    return true;
  }

  /** Creates a draft, which keeps its groups and policies. */
  make({ choice, groups, unfilled, needsAddresses }: DraftOptions): RulesDraft {
    const { key, tiers } = choice;
    const policies = policiesWithRules(choice);
    const namespace = ownerOf(choice);
    const storesAddresses = needsAddresses && tiers.length === 0;
    const namespaces = new Set<string>();
    const since = this.#index.groups.fills;
    const state = { unfilled, since, namespaces, pods: 0 };
    const draft = { key, namespace, policies, groups, storesAddresses, ...state };
    this.#note(draft, 1);
    this.#byKey.set(key, draft);
    return draft;
  }

  /** Adds a pod that waits for a draft. Pods of several namespaces may share a draft if it only has administrators' policies. */
  join(draft: RulesDraft, namespace: string): void {
    draft.pods++;
    if (draft.namespaces.has(namespace)) return;
    draft.namespaces.add(namespace);
    this.#index.groups.addWaiter(draft.unfilled, namespace);
  }

  /** Removes the draft of these policies, so that no more pods get it. Pods that already wait for it keep it. */
  forget({ key }: PolicyChoice): void {
    this.#byKey.delete(key);
  }

  /** Call this when a pod no longer waits for a draft. */
  release(draft: RulesDraft | undefined): void {
    if (!draft || --draft.pods > 0) return;
    if (this.#byKey.get(draft.key) === draft) this.#byKey.delete(draft.key);
    this.#note(draft, -1);
  }

  #note({ groups, namespace, policies, storesAddresses }: RulesDraft, change: 1 | -1): void {
    for (const name of groups)
      if (storesAddresses) this.#use(name, change, namespace);
      else this.#index.groups.hold(name, change, namespace);
    for (const policy of policies) this.#index.budget.use(policy, change);
  }
}

/** The namespace of the NetworkPolicies that rules are made from. Undefined if there are only administrators' policies. */
export function ownerOf({ policies, pod }: PolicyChoice): string | undefined {
  return policies.length > 0 ? pod.namespace : undefined;
}
