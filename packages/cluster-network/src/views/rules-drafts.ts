import type { NetworkPolicy } from "@kip/k8s-types/network";
import { policiesWithRules } from "../policies/pod-policy.ts";
import type { PolicyChoice, PolicyIndex } from "../policies/policy-index.ts";

/** Rules that cannot be made or given to a pod yet, as groups that they name are not filled. Those are kept while a pod waits for them. */
export interface RulesDraft {
  readonly key: string;
  /** Of the pods, if they have NetworkPolicies. */
  readonly namespace: string | undefined;
  readonly groups: ReadonlySet<string>;
  /** Those of the groups that may not have been filled since it was made. */
  readonly unfilled: Set<string>;
  /** When it was made, see {@link AddressGroups.fills}. */
  readonly since: number;
  /** Of the pods that wait. */
  readonly namespaces: Set<string>;
  readonly policies: readonly NetworkPolicy[];
  pods: number;
}

/** Drafts of rules, which all pods wait for that the same policies select. */
export class RulesDrafts {
  readonly #index: PolicyIndex;
  readonly #byKey = new Map<string, RulesDraft>();

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  /** The draft that pods with these policies wait for; undefined if its groups have been filled. */
  unfilled(choice: PolicyChoice): RulesDraft | undefined {
    const draft = this.#byKey.get(choice.key);
    return draft && !this.isFilled(draft) ? draft : undefined;
  }

  /** Whether each group of a draft has been filled since the draft was made. */
  isFilled({ unfilled, since }: RulesDraft): boolean {
    for (const name of unfilled) {
      if (!this.#index.groups.wasFilledSince(name, since)) return false;
      unfilled.delete(name);
    }
    return true;
  }

  /** Makes a draft, which keeps its groups and policies. */
  make(choice: PolicyChoice, groups: ReadonlySet<string>, unfilled: Set<string>): RulesDraft {
    const { key } = choice;
    const policies = policiesWithRules(choice);
    const namespace = ownerOf(choice);
    for (const name of groups) this.#index.groups.hold(name, 1, namespace);
    for (const policy of policies) this.#index.budget.use(policy, 1);
    const namespaces = new Set<string>();
    const since = this.#index.groups.fills;
    const draft = { key, namespace, policies, groups, unfilled, since, namespaces, pods: 0 };
    this.#byKey.set(key, draft);
    return draft;
  }

  /** Notes that a pod waits for a draft. Only policies of administrators are those of pods of several namespaces. */
  join(draft: RulesDraft, namespace: string): void {
    draft.pods++;
    if (draft.namespaces.has(namespace)) return;
    draft.namespaces.add(namespace);
    this.#index.groups.want(draft.unfilled, namespace);
  }

  /** Has no pods wait any longer for the draft of policies, but those that do. */
  forget({ key }: PolicyChoice): void {
    this.#byKey.delete(key);
  }

  /** Notes that a pod no longer waits for rules. */
  release(draft: RulesDraft | undefined): void {
    if (!draft || --draft.pods > 0) return;
    if (this.#byKey.get(draft.key) === draft) this.#byKey.delete(draft.key);
    for (const name of draft.groups) this.#index.groups.hold(name, -1, draft.namespace);
    for (const policy of draft.policies) this.#index.budget.use(policy, -1);
  }
}

/** Whose NetworkPolicies rules are made from; undefined if they are made from those of administrators alone. */
export function ownerOf({ policies, pod }: PolicyChoice): string | undefined {
  return policies.length > 0 ? pod.namespace : undefined;
}
