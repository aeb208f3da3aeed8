import type { AddressGroups } from "../policies/address-groups.ts";
import type { GroupSelector } from "../policies/group-selector.ts";
import { maxShortSubjectTerms, termsOf } from "../policies/policy-cost.ts";
import type { PolicyChange } from "../policies/policy-index.ts";

/** A pod on a cell. */
interface KnownPod {
  readonly podUid: string;
  readonly namespace: string;
}

/** How many subjects of changed policies a pod is compared with. If there are more, all pods of the namespace count as affected. */
const maxSubjects = 16;

/**
 * The limit for the labels, expressions and values of all these subjects together. It is that of one short subject, because a long one may
 * also change the policies of pods that it does not select, see {@link isComparable}.
 */
const maxTerms = maxShortSubjectTerms;

/** Finds the pods whose policies may have changed. */
export class AffectedPods {
  /** Subjects of changed policies by namespace. The key `undefined` is for administrators' policies. */
  readonly #subjects = new Map<string | undefined, GroupSelector[]>();
  readonly #namespaces = new Set<string | undefined>();
  readonly #pods = new Set<string>();

  /** Records a change of a policy. Undefined has no effect. @param namespace the namespace of a NetworkPolicy */
  notePolicy(change: PolicyChange | undefined, namespace?: string): void {
    if (!change) return;
    const subjects = this.#subjects.get(namespace) ?? [];
    subjects.push(...change.subjects);
    const terms = subjects.reduce((sum, subject) => sum + termsOfSubject(subject), 0);
    const isTooMuch = subjects.length > maxSubjects || terms > maxTerms;
    if (change.isFirstOrLast || isTooMuch) this.noteNamespace(namespace);
    else if (!this.#namespaces.has(namespace)) this.#subjects.set(namespace, subjects);
  }

  /** Records all pods of a namespace as affected. Undefined means all namespaces. */
  noteNamespace(namespace: string | undefined): void {
    this.#namespaces.add(namespace);
    this.#subjects.delete(namespace);
  }

  notePod(uid: string): void {
    this.#pods.add(uid);
  }

  /** Returns those of the pods that are affected by the changes recorded since the last call. */
  take<T extends KnownPod>(pods: Iterable<T>, groups: AddressGroups): readonly T[] {
    const noted = [this.#subjects, this.#namespaces, this.#pods];
    if (noted.every(({ size }) => size === 0)) return [];
    const affected = [...pods].filter((pod) => this.#isAffected(pod, groups));
    for (const each of noted) each.clear();
    return affected;
  }

  #isAffected({ podUid, namespace }: KnownPod, groups: AddressGroups): boolean {
    if (this.#namespaces.has(undefined) || this.#namespaces.has(namespace)) return true;
    if (this.#pods.has(podUid)) return true;
    const facts = groups.pod(podUid);
    if (!facts) return false; // an unknown pod is selected by nothing
    return [undefined, namespace].some((where) =>
      this.#subjects
        .get(where)
        ?.some((subject) => isSelected(() => groups.selects(subject, facts))),
    );
  }
}

/** A selector that cannot be read counts as matching. */
function isSelected(ask: () => boolean): boolean {
  try {
    return ask();
  } catch {
    return true;
  }
}

function termsOfSubject({ namespaceSelector, podSelector }: GroupSelector): number {
  return termsOf(namespaceSelector) + termsOf(podSelector);
}
