import { matchesLabels, type Labels } from "@kip/k8s-client";
import { FillQueue, podsPerStep } from "./fill-queue.ts";
import {
  areSame,
  count,
  needsRefill,
  newGroup,
  noShare,
  shareOfAddresses,
  shareOfPod,
  rank,
  storesValues,
  takeChange,
  takeMembers,
  type Group,
  type GroupChange,
  type GroupSize,
  type Share,
} from "./group.ts";
import { groupName, type GroupSelector, type PortName } from "./group-selector.ts";
import { Numbering } from "./bit-set.ts";
import { KnownPods } from "./known-pods.ts";
import type { PodFacts } from "./pod-facts.ts";
import { ownNumbers } from "./pod-ports.ts";
import type { PodScope } from "./pod-scope.ts";
import { firstNumbers, maxNumbers, noRankedNumbers, type PortNumbers } from "./port-numbers.ts";

/** The properties of a node that policies use. */
export interface NodeFacts {
  readonly labels: Labels;
  readonly addresses: readonly string[];
}

/**
 * The pods and nodes that each selector of a policy matches. Equal selectors share a group.
 *
 * A change of a pod is only recorded at first, because users decide how many groups must be compared with it. {@link AddressGroups.fill}
 * compares them later, in small steps. The namespaces whose policies name the groups take turns. Until then a group is outdated and must
 * not be used. A group that no cell uses needs one bit of memory for each pod.
 */
export class AddressGroups {
  readonly #pods = new KnownPods();
  readonly #namespaces = new Map<string, Labels>();
  readonly #nodes = new Map<string, NodeFacts>();
  readonly #groups = new Map<string, Group>();
  /** Groups of nodes. Only administrators' policies have them, so there are few, and a change of a node is applied to each immediately. */
  readonly #nodeGroups = new Map<string, Group>();
  /** Groups whose members have changed since {@link AddressGroups.takeChanges}. */
  readonly #touched = new Set<string>();
  readonly #nodeNumbers = new Numbering();
  /** New groups. They must be compared with all pods or nodes. */
  readonly #unfilled = new FillQueue();
  /** Groups that were filled before, and must be compared with pods that have changed since. */
  readonly #outdated = new FillQueue();
  /** Cache of group names by selector: the names for administrators' policies are needed again for each pod. */
  readonly #names = new WeakMap<object, string>();
  #fills = 0;
  #isTurnOfNew = false;

  /** How many groups there are. */
  get size(): number {
    return this.#groups.size;
  }

  /** Labels of a namespace; undefined if it is not known. */
  namespaceLabels(name: string): Labels | undefined {
    return this.#namespaces.get(name);
  }

  /** Sets the labels of a namespace. Undefined if it was deleted. */
  setNamespace(name: string, labels: Labels | undefined): void {
    if (labels) this.#namespaces.set(name, labels);
    else this.#namespaces.delete(name);
    this.#pods.noteNamespace(name);
  }

  /** Names of all namespaces whose labels are known. */
  namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  /**
   * Updates all groups, in steps of less than a millisecond. The caller may stop after any step and call again later. Changes that arrive
   * between two steps are handled by the next call.
   */
  *fill(): Generator<undefined> {
    this.#fills++;
    this.#queueOutdatedGroups();
    while (this.#unfilled.size + this.#outdated.size > 0) {
      // Users decide how long each queue is, and a caller may have time for one step only. So the queues take turns.
      this.#isTurnOfNew = !this.#isTurnOfNew;
      const queue = this.#isTurnOfNew ? this.#unfilled : this.#outdated;
      if (queue.size === 0) continue;
      queue.step();
      yield;
    }
    this.#pods.trim();
  }

  /** Notes that pods of a namespace wait for groups to be filled. */
  addWaiter(names: Iterable<string>, namespace: string): void {
    for (const name of names)
      for (const queue of [this.#outdated, this.#unfilled]) queue.addWaiter(name, namespace);
  }

  /** Updates all groups in one go. */
  settle(): void {
    for (const _ of this.fill());
  }

  /** Whether all groups are up to date. */
  get isSettled(): boolean {
    return !this.#pods.isChanged && this.#unfilled.size + this.#outdated.size === 0;
  }

  /**
   * Whether a group is up to date. For a group that no rules use, only the size may be known.
   *
   * @param since an earlier value of {@link AddressGroups.fills}. It is enough if the group was up to date at some time after it. If
   * undefined, the group must be up to date now
   */
  isFilled(name: string, since?: number): boolean {
    const group = this.#groups.get(name);
    if (!group) return false;
    if (since !== undefined && group.filledIn > since) return true;
    if (this.#unfilled.has(name) || this.#outdated.has(name)) return false;
    const { nodes, namespace } = group.selector;
    return nodes !== undefined || !this.#pods.isChangedIn(namespace);
  }

  /** Whether a group is up to date and its addresses or port numbers are known. */
  hasAddresses(name: string, since?: number): boolean {
    const group = this.#groups.get(name);
    const areKnown = group?.areMembersKnown === true || group?.counts !== undefined;
    return areKnown && this.isFilled(name, since);
  }

  /** How many times {@link AddressGroups.fill} has begun. */
  get fills(): number {
    return this.#fills;
  }

  /**
   * Whether a group of a namespace's policies was outdated when {@link AddressGroups.fill} last stopped. If so, the groups of the
   * namespace do not all show the same state of the cluster.
   *
   * @param namespace "" for policies of administrators
   */
  hasOutdatedGroup(namespace: string): boolean {
    return this.#outdated.isAwaitedBy(namespace);
  }

  /** Sets a pod. Undefined if it was deleted. Groups contain the change after the next {@link AddressGroups.fill}. */
  setPod(uid: string, pod: PodFacts | undefined): void {
    this.#pods.set(uid, pod);
  }

  /** Sets a node. Undefined if it was deleted. */
  setNode(name: string, node: NodeFacts | undefined): void {
    const before = this.#nodes.get(name);
    if (node) this.#nodes.set(name, node);
    else this.#nodes.delete(name);
    const number = this.#nodeNumbers.of(name);
    for (const [groupName, group] of this.#nodeGroups)
      this.#placeNode(groupName, group, { number, before, after: node });
    if (!node) this.#nodeNumbers.release(name);
  }

  /** Whether the labels of a namespace are known. */
  knowsNamespace(name: string): boolean {
    return this.#namespaces.has(name);
  }

  /** Whether a selector matches a pod. */
  selects(selector: GroupSelector, pod: PodFacts): boolean {
    return this.#isMember(selector, pod);
  }

  /** A pod by its UID. */
  pod(uid: string): PodFacts | undefined {
    return this.#pods.pod(uid);
  }

  /** UIDs of all pods. */
  podUids(): Iterable<string> {
    return this.#pods.uids();
  }

  /** The name of a selector's group. Creates the group if it does not exist. The name is the same after a restart of kip. */
  name(selector: GroupSelector): string {
    const key = selector.nodes ?? selector;
    const name = this.#names.get(key) ?? groupName(selector);
    this.#names.set(key, name);
    if (!this.#groups.has(name)) this.#create(name, selector);
    return name;
  }

  /**
   * Counts a use of a group: rules need its addresses (1), or no longer do (-1). The addresses are kept only while there are uses. A group
   * that is neither used nor held is deleted.
   *
   * @param namespace the namespace whose policies name the group. "" for policies of administrators
   * @returns the number of uses
   */
  use(name: string, change: 1 | -1, namespace = ""): number {
    const group = this.#groups.get(name);
    if (!group) return 0;
    group.owners.note(namespace, change);
    if (change > 0) this.#outdated.addWaiter(name, namespace);
    group.uses += change;
    if (group.uses > 0 && group.areMembersKnown) group.counts ??= this.#countsOf(group);
    if (!storesValues(group)) {
      group.counts = undefined;
      group.touched.clear();
    }
    this.#forgetUnused(name, group);
    return group.uses;
  }

  /**
   * Counts a dependency on the size of a group (1), or its end (-1).
   *
   * @param namespace the namespace whose policies name the group. "" for policies of administrators
   */
  hold(name: string, change: 1 | -1, namespace = ""): void {
    const group = this.#groups.get(name);
    if (!group) return;
    group.owners.note(namespace, change);
    if (change > 0) this.#outdated.addWaiter(name, namespace);
    group.holds += change;
    this.#forgetUnused(name, group);
  }

  /** Deletes all groups that are neither used nor held. */
  prune(): void {
    for (const [name, group] of this.#groups) this.#forgetUnused(name, group);
  }

  /** The addresses of a group now. */
  addresses(name: string): readonly string[] {
    const group = this.#groups.get(name);
    return group ? [...(group.counts ?? this.#countsOf(group)).keys()] : [];
  }

  /** The addresses of a group that is used. {@link AddressGroups.takeChanges} then returns only later changes. */
  takeAddresses(name: string): readonly string[] {
    this.#groups.get(name)?.touched.clear();
    return this.addresses(name);
  }

  /** The size of a group now. */
  sizeOf(name: string): GroupSize {
    const group = this.#groups.get(name);
    if (!group) return { addresses: 0, bytes: 0, numbers: 0 };
    const { addresses, bytes, chosen } = group;
    return { addresses, bytes, numbers: chosen.ranked.length };
  }

  /** The port numbers that the pods of a selector have for a named port. Complete if the group of {@link numbersName} is up to date. */
  portNumbers(selector: GroupSelector, port: PortName, most: number = maxNumbers): PortNumbers {
    const group = this.#groups.get(this.numbersName(selector, port));
    return firstNumbers(group?.chosen ?? noRankedNumbers, most);
  }

  /** The name of the group of port numbers that the pods of a selector have for a named port. */
  numbersName(selector: GroupSelector, port: PortName): string {
    return this.name({ ...selector, numbersOf: port });
  }

  /** The changes since the last call, of groups that are up to date. Changes contain addresses only for groups that are used. */
  takeChanges(): ReadonlyMap<string, GroupChange> {
    const changes = new Map<string, GroupChange>();
    for (const name of this.#touched) {
      const group = this.#groups.get(name);
      if (group && !this.isFilled(name)) continue;
      this.#touched.delete(name);
      if (group) changes.set(name, takeChange(group));
    }
    return changes;
  }

  #create(name: string, selector: GroupSelector): void {
    const group = newGroup(selector);
    // Find an invalid selector here, so that fill() does not throw later.
    for (const part of [selector.nodes, selector.namespaceSelector, selector.podSelector])
      if (part) matchesLabels(part, {});
    this.#groups.set(name, group);
    if (selector.nodes) {
      this.#nodeGroups.set(name, group);
      this.#unfilled.add(name, this.#fillWithNodes(name, group));
      return;
    }
    const scope = this.#pods.scope(selector.namespace);
    scope.groups.set(name, group);
    this.#unfilled.add(name, this.#fillWithPods(name, group, scope));
  }

  *#fillWithNodes(name: string, group: Group): Generator<undefined, number> {
    let count = 0;
    for (const [uid, node] of this.#nodes) {
      const number = this.#nodeNumbers.of(uid);
      this.#placeNode(name, group, { number, before: node, after: node });
      if (++count % podsPerStep === 0) yield;
    }
    takeChange(group); // the first members are not a change
    return count % podsPerStep;
  }

  *#fillWithPods(name: string, group: Group, scope: PodScope): Generator<undefined, number> {
    const count = yield* this.#compareWithChangedPods(name, group, scope);
    takeChange(group);
    return count;
  }

  /** Compares a group with all pods. */
  *#compareWithAllPods(name: string, group: Group, scope: PodScope): Generator<undefined, number> {
    let count = 0;
    for (;;) {
      const found = newGroup(group.selector);
      if (storesValues(group)) found.counts = new Map();
      group.seen = scope.end;
      for (const number of scope.numbers) {
        count += this.#placePod(name, found, number);
        if (count < podsPerStep) continue;
        count = 0;
        yield;
        if (needsRefill(group)) break;
      }
      if (needsRefill(group)) continue; // too many pods have changed meanwhile, so it starts again
      if (storesValues(group)) found.counts ??= this.#countsOf(found);
      takeMembers(group, found);
      this.#touched.add(name); // even if it is empty now, because it may have had members before
      return count;
    }
  }

  /** Compares a group with pods that have changed. */
  *#compareWithChangedPods(
    name: string,
    group: Group,
    scope: PodScope,
  ): Generator<undefined, number> {
    let count = 0;
    for (;;) {
      if (needsRefill(group)) count = yield* this.#compareWithAllPods(name, group, scope);
      const number = scope.at(group.seen ?? 0);
      if (number === undefined) {
        // Ranking also takes several steps, and pods may have changed between them.
        count = yield* rank(group, count);
        if (group.seen !== scope.end) continue;
        group.filledIn = this.#fills;
        return count;
      }
      // The log has a pod's new state, and then the end of its old one. Handle both in one step, so that no pod counts twice between steps.
      const isOutdated = this.#pods.state(number)?.isOutdated ?? false;
      if (count >= 2 * podsPerStep || (count >= podsPerStep && !isOutdated)) {
        count = 0;
        yield;
        continue;
      }
      group.seen = (group.seen ?? 0) + 1;
      count += this.#placePod(name, group, number);
    }
  }

  /** Queues the groups that have to be compared with pods that have changed. */
  #queueOutdatedGroups(): void {
    for (const scope of this.#pods.takeChanged())
      for (const [name, group] of scope.behind()) {
        if (this.#unfilled.has(name)) continue;
        if (!this.#outdated.has(name))
          this.#outdated.add(name, this.#compareWithChangedPods(name, group, scope));
        this.#outdated.addOwnersAsWaiters(name, group.owners);
      }
  }

  #forgetUnused(name: string, { uses, holds, selector }: Group): void {
    if (uses + holds > 0) return;
    this.#groups.delete(name);
    this.#nodeGroups.delete(name);
    for (const queue of [this.#outdated, this.#unfilled]) queue.delete(name);
    if (selector.nodes) return;
    this.#pods.scope(selector.namespace).groups.delete(name);
    this.#pods.release(selector.namespace);
  }

  /** @returns the work in units of `podsPerStep`. More than 1 for a pod with very many labels or ports, or for a long selector */
  #placePod(name: string, group: Group, number: number): number {
    const state = this.#pods.state(number);
    if (!state) return 1;
    const wasIn = group.members.has(number);
    // A pod without addresses contributes nothing.
    const mayBeIn = !state.isOutdated && state.pod.addresses.length > 0;
    const isIn = mayBeIn && this.#isMember(group.selector, state.pod);
    const share = wasIn === isIn ? noShare : shareOfPod(group, state.pod);
    const [before, after] = wasIn ? [share, noShare] : [noShare, share];
    this.#change(name, group, { number, before, after });
    return mayBeIn ? Math.min(podsPerStep, state.cost + group.cost) : 1;
  }

  #placeNode(name: string, group: Group, { number, before, after }: Placement<NodeFacts>): void {
    this.#change(name, group, {
      number,
      before: group.members.has(number) && before ? shareOfAddresses(before.addresses) : noShare,
      after:
        after && matchesLabels(group.selector.nodes ?? {}, after.labels)
          ? shareOfAddresses(after.addresses)
          : noShare,
    });
  }

  #change(name: string, group: Group, { number, before, after }: Placement<Share>): void {
    if (!before || !after || areSame(before, after)) return;
    group.addresses += after.addresses - before.addresses;
    group.bytes += after.bytes - before.bytes;
    if (after.values.length > 0) group.members.add(number);
    else group.members.delete(number);
    for (const address of before.values) count(group, address, -1);
    for (const address of after.values) count(group, address, 1);
    if (group.selector.numbersOf) group.isRanked = false;
    this.#touched.add(name);
  }

  /** Computes `Group.counts` from the members. */
  #countsOf(group: Group): Map<string, number> {
    const counts = new Map<string, number>();
    const add = ({ values }: Share): void => {
      for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    };
    for (const number of group.members.values()) {
      const node = this.#nodes.get(this.#nodeNumbers.nameOf(number) ?? "");
      const state = this.#pods.state(number);
      if (group.selector.nodes) add(shareOfAddresses(node?.addresses ?? []));
      else if (state) add(shareOfPod(group, state.pod));
    }
    return counts;
  }

  #isMember(selector: GroupSelector, pod: PodFacts): boolean {
    const { namespace, namespaceSelector, podSelector, port } = selector;
    if (namespace !== undefined && namespace !== pod.namespace) return false;
    const labels = this.#namespaces.get(pod.namespace);
    // The labels of a namespace may arrive after its pods.
    if (namespaceSelector && (!labels || !matchesLabels(namespaceSelector, labels))) return false;
    return matchesLabels(podSelector, pod.labels) && (!port || hasPort(pod, port));
  }
}

/** The old and new state of a node, or of what a pod or node contributes to a group. */
interface Placement<T> {
  readonly number: number;
  readonly before: T | undefined;
  readonly after: T | undefined;
}

function hasPort(pod: PodFacts, wanted: NonNullable<GroupSelector["port"]>): boolean {
  const { numbers } = ownNumbers(pod, wanted);
  if ("number" in wanted) return numbers.includes(wanted.number);
  // If a pod has too many numbers, ownNumbers() returns one more than can have rules. Then this is true.
  return numbers.some((number) => !wanted.otherThan.has(number));
}
