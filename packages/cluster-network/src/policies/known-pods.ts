import type { PodFacts } from "./pod-facts.ts";
import { PodScope } from "./pod-scope.ts";

/** A pod as it was between two changes. It is kept until no group counts it any longer, as a group must subtract exactly what it has added. */
interface PodState {
  readonly pod: PodFacts;
  /** How much work a comparison with it is: 1, and 1 more for each 64 labels and ports. */
  readonly cost: number;
  /** The pod is gone, or in another state. */
  isOutdated: boolean;
  /** How many scopes still have its number: that of its namespace, and that of all pods. */
  scopes: number;
}

/** All pods. Each state of a pod has a small number, so that a group can keep its members in a {@link BitSet}. Also notes which groups have changes to catch up with. */
export class KnownPods {
  /** Numbers of the current states, by UID. */
  readonly #numbers = new Map<string, number>();
  readonly #states: (PodState | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  /** Pods of each namespace and, by `undefined`, all pods. A group whose selector is of one namespace is not compared with others' pods. */
  readonly #scopes = new Map<string | undefined, PodScope>();
  /** Scopes with changes since {@link KnownPods.takeChanged}. */
  readonly #changed = new Set<PodScope>();
  /** Scopes with earlier changes, which groups may have yet to look at. */
  readonly #changedEarlier = new Set<PodScope>();

  /** A pod as it is now. */
  pod(uid: string): PodFacts | undefined {
    const number = this.#numbers.get(uid);
    return number === undefined ? undefined : this.#states[number]?.pod;
  }

  /** UIDs of all pods. */
  uids(): Iterable<string> {
    return this.#numbers.keys();
  }

  /** The state that has a number. */
  state(number: number): Readonly<PodState> | undefined {
    return this.#states[number];
  }

  /** Takes a pod; undefined if it is gone. */
  set(uid: string, pod: PodFacts | undefined): void {
    const before = this.#numbers.get(uid);
    this.#numbers.delete(uid);
    // The new state is added before the old one is removed: an address that both have is never missing in between.
    if (pod) this.#numbers.set(uid, this.#begin(pod));
    const state = before === undefined ? undefined : this.#states[before];
    if (before === undefined || !state) return;
    state.isOutdated = true;
    this.#note(before, state);
  }

  /** Notes that the labels of a namespace have changed: groups look at its pods again. */
  noteNamespace(name: string): void {
    for (const number of this.#scopes.get(name)?.numbers ?? []) {
      const state = this.#states[number];
      if (state?.isOutdated === false) this.#note(number, state);
    }
  }

  /** Pods of a namespace; undefined for all pods. */
  scope(namespace: string | undefined): PodScope {
    const scope = this.#scopes.get(namespace) ?? new PodScope();
    this.#scopes.set(namespace, scope);
    return scope;
  }

  /** Whether there are changes since {@link KnownPods.takeChanged}. */
  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** The same for one scope. */
  isChangedIn(namespace: string | undefined): boolean {
    const scope = this.#scopes.get(namespace);
    return scope !== undefined && this.#changed.has(scope);
  }

  /** Scopes with changes since the last call. */
  takeChanged(): readonly PodScope[] {
    const changed = [...this.#changed];
    for (const scope of changed) {
      this.#trim(scope);
      this.#changedEarlier.add(scope);
    }
    this.#changed.clear();
    return changed;
  }

  /** Forgets changes that all groups have caught up with. */
  trim(): void {
    for (const scope of this.#changedEarlier) this.#trim(scope);
    this.#changedEarlier.clear();
  }

  /** Forgets the changes of a scope without groups, and the scope if it has no pods either. */
  release(namespace: string | undefined): void {
    const scope = this.#scopes.get(namespace);
    if (!scope || scope.groups.size > 0) return;
    this.#trim(scope);
    this.#changed.delete(scope);
    if (scope.numbers.size === 0) this.#scopes.delete(namespace);
  }

  #begin(pod: PodFacts): number {
    const number = this.#freeNumbers.pop() ?? this.#states.length;
    const cost = 1 + Math.floor((Object.keys(pod.labels).length + pod.ports.length) / 64);
    const state = { pod, cost, isOutdated: false, scopes: 2 };
    this.#states[number] = state;
    for (const each of [pod.namespace, undefined]) this.scope(each).numbers.add(number);
    this.#note(number, state);
    return number;
  }

  #note(number: number, { pod, isOutdated }: PodState): void {
    for (const each of [pod.namespace, undefined]) {
      const scope = this.scope(each);
      scope.note(number, isOutdated);
      if (scope.groups.size > 0) this.#changed.add(scope);
      else this.release(each);
    }
  }

  #trim(scope: PodScope): void {
    for (const number of scope.trim()) {
      const state = this.#states[number];
      if (!state || --state.scopes > 0) continue;
      this.#states[number] = undefined;
      this.#freeNumbers.push(number);
    }
  }
}
