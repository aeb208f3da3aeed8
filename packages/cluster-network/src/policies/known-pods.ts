import type { PodFacts } from "./pod-facts.ts";
import { PodScope } from "./pod-scope.ts";

/** The state of a pod between two changes. Kept until no group counts it, because a group must subtract exactly what it has added. */
interface PodState {
  readonly pod: PodFacts;
  /** The work of a comparison with it: 1, plus 1 for each 64 labels and ports. */
  readonly cost: number;
  /** Whether the pod was deleted or has a newer state. */
  isOutdated: boolean;
  /** How many scopes still contain its number. At first 2: the scope of its namespace, and that of all pods. */
  scopes: number;
}

/**
 * All pods. Each state of a pod has a small number, so that a group can store its members in a {@link BitSet}. Also records the changes
 * that groups have not processed yet.
 */
export class KnownPods {
  /** Numbers of the current states, by UID. */
  readonly #numbers = new Map<string, number>();
  readonly #states: (PodState | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  /** The pods of each namespace. The key `undefined` is for all pods. A group for one namespace is only compared with pods of that namespace. */
  readonly #scopes = new Map<string | undefined, PodScope>();
  /** Scopes with changes since {@link KnownPods.takeChanged}. */
  readonly #changed = new Set<PodScope>();
  /** Scopes with earlier changes, which some groups may not have processed yet. */
  readonly #changedEarlier = new Set<PodScope>();

  /** The current state of a pod. */
  pod(uid: string): PodFacts | undefined {
    const number = this.#numbers.get(uid);
    return number === undefined ? undefined : this.#states[number]?.pod;
  }

  /** UIDs of all pods. */
  uids(): Iterable<string> {
    return this.#numbers.keys();
  }

  /** The state with this number. */
  state(number: number): Readonly<PodState> | undefined {
    return this.#states[number];
  }

  /** Sets a pod. Undefined if it was deleted. */
  set(uid: string, pod: PodFacts | undefined): void {
    const before = this.#numbers.get(uid);
    this.#numbers.delete(uid);
    // Add the new state before removing the old one, so that an address of both is never missing in between.
    if (pod) this.#numbers.set(uid, this.#begin(pod));
    const state = before === undefined ? undefined : this.#states[before];
    if (before === undefined || !state) return;
    state.isOutdated = true;
    this.#note(before, state);
  }

  /** Call this when the labels of a namespace have changed. Groups are then compared with its pods again. */
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

  /** Whether one scope has changes since {@link KnownPods.takeChanged}. */
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

  /** Removes changes that all groups have processed. */
  trim(): void {
    for (const scope of this.#changedEarlier) this.#trim(scope);
    this.#changedEarlier.clear();
  }

  /** Removes the changes of a scope without groups. Also removes the scope if it has no pods. */
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
