import type { PodFacts } from "./pod-facts.ts";
import { PodScope } from "./pod-scope.ts";

/** One state of a pod. It never changes: what a group has of it is known whatever the pod is by now. */
interface PodState {
  readonly pod: PodFacts;
  /** How much a comparison with it counts: one for each 64 labels, and one more. */
  readonly cost: number;
  /** The pod is gone, or in another state. */
  isOver: boolean;
  /** How many scopes may have groups that have it. */
  scopes: number;
}

/** Pods by small numbers, another one for each state of a pod, and which groups have yet to look at them. */
export class KnownPods {
  /** The states that pods are in, by UID. */
  readonly #numbers = new Map<string, number>();
  readonly #states: (PodState | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  /** By namespace, and all pods: a group whose selector is of one namespace has nothing to do with pods of others. */
  readonly #scopes = new Map<string | undefined, PodScope>();
  /** With changes that groups have not been informed of. */
  readonly #changed = new Set<PodScope>();
  /** With changes that groups have been informed of. */
  readonly #told = new Set<PodScope>();

  /** A pod as it is. */
  pod(uid: string): PodFacts | undefined {
    const number = this.#numbers.get(uid);
    return number === undefined ? undefined : this.#states[number]?.pod;
  }

  /** Of all pods. */
  uids(): Iterable<string> {
    return this.#numbers.keys();
  }

  /** What has a number; undefined if nothing has. */
  state(number: number): Readonly<PodState> | undefined {
    return this.#states[number];
  }

  /** Takes a pod; undefined if it is gone. */
  set(uid: string, pod: PodFacts | undefined): void {
    const before = this.#numbers.get(uid);
    this.#numbers.delete(uid);
    // The new state comes first: an address that both have is never missing.
    if (pod) this.#numbers.set(uid, this.#begin(pod));
    const state = before === undefined ? undefined : this.#states[before];
    if (before === undefined || !state) return;
    state.isOver = true;
    this.#note(before, state);
  }

  /** Notes that a namespace has other labels. */
  noteNamespace(name: string): void {
    for (const number of this.#scopes.get(name)?.numbers ?? []) {
      const state = this.#states[number];
      if (state?.isOver === false) this.#note(number, state);
    }
  }

  /** Pods of a namespace, or all. */
  scope(namespace: string | undefined): PodScope {
    const scope = this.#scopes.get(namespace) ?? new PodScope();
    this.#scopes.set(namespace, scope);
    return scope;
  }

  /** Whether there are changes that groups have not been informed of. */
  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** The same for the groups of one scope. */
  isChangedIn(namespace: string | undefined): boolean {
    const scope = this.#scopes.get(namespace);
    return scope !== undefined && this.#changed.has(scope);
  }

  /** Scopes whose groups are now informed of changes. */
  takeChanged(): readonly PodScope[] {
    const changed = [...this.#changed];
    for (const scope of changed) {
      this.#trim(scope);
      this.#told.add(scope);
    }
    this.#changed.clear();
    return changed;
  }

  /** Forgets what all groups have looked at. */
  trim(): void {
    for (const scope of this.#told) this.#trim(scope);
    this.#told.clear();
  }

  /** Forgets a scope that has no groups any longer, unless it has pods. */
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
    const state = { pod, cost, isOver: false, scopes: 2 };
    this.#states[number] = state;
    for (const each of [pod.namespace, undefined]) this.scope(each).numbers.add(number);
    this.#note(number, state);
    return number;
  }

  #note(number: number, { pod, isOver }: PodState): void {
    for (const each of [pod.namespace, undefined]) {
      const scope = this.scope(each);
      scope.note(number, isOver);
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
