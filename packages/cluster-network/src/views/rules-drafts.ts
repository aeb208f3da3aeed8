import type { NetworkPolicy } from "@kip/k8s-types/network";
import { policiesWithRules } from "../policies/pod-policy.ts";
import type { PolicyChoice, PolicyIndex } from "../policies/policy-index.ts";

/** Rules that cannot be made, or given to a pod, yet, as some groups are not filled. A draft keeps these groups while a pod waits. */
export interface RulesDraft {
  readonly key: string;
  /** The namespace of the pods, if they have NetworkPolicies. */
  readonly namespace: string | undefined;
  readonly groups: ReadonlySet<string>;
  /** Those of the groups that may not have been filled since the draft was made. */
  readonly unfilled: Set<string>;
  /** {@link AddressGroups.fills} when the draft was made. */
  readonly since: number;
  /** Namespaces of the pods that wait. */
  readonly namespaces: Set<string>;
  readonly policies: readonly NetworkPolicy[];
  /** Whether the addresses of the groups are kept, and not only their sizes: a group may be out of date again before the last one is filled. */
  readonly storesAddresses: boolean;
  pods: number;
}

/** What {@link RulesDrafts.make} makes a draft of. */
export interface DraftOptions {
  readonly choice: PolicyChoice;
  readonly groups: ReadonlySet<string>;
  readonly unfilled: Set<string>;
  /** Whether rules need the addresses of the groups; otherwise only their sizes are needed. */
  readonly needsAddresses: boolean;
}

/** Notes that something uses a group, or no longer does. */
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
   * The draft that pods with these policies wait for; undefined if there is none, or nothing to wait for any longer.
   *
   * @param since as of {@link AddressGroups.isFilled}: since when the pod has these policies, which may be longer than the draft is there
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

  /** Makes a draft, which keeps its groups and policies. */
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

  /** Notes that a pod waits for a draft. Pods of several namespaces may share one that is of administrators' policies alone. */
  join(draft: RulesDraft, namespace: string): void {
    draft.pods++;
    if (draft.namespaces.has(namespace)) return;
    draft.namespaces.add(namespace);
    this.#index.groups.addWaiter(draft.unfilled, namespace);
  }

  /** Gives no further pods the draft of these policies. Those that wait for it keep it. */
  forget({ key }: PolicyChoice): void {
    this.#byKey.delete(key);
  }

  /** Notes that a pod no longer waits for rules. */
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

/** Whose NetworkPolicies rules are made from; undefined if they are made from those of administrators alone. */
export function ownerOf({ policies, pod }: PolicyChoice): string | undefined {
  return policies.length > 0 ? pod.namespace : undefined;
}
