import { matchesLabels, type Labels } from "@kip/k8s-client";
import { FillQueue } from "./fill-queue.ts";
import {
  areSame,
  chosenOf,
  count,
  newGroup,
  noShare,
  ofAddresses,
  ofPod,
  takeChange,
  type Group,
  type GroupChange,
  type GroupSize,
  type Share,
} from "./group.ts";
import { groupName, type GroupSelector, type PortName } from "./group-selector.ts";
import { Numbering } from "./number-set.ts";
import type { NamedPort, PodFacts } from "./pod-facts.ts";
import { firstNumbers, mostNumbers, noRankedNumbers, type PortNumbers } from "./port-numbers.ts";

/** What policies need to know of a node. */
export interface NodeFacts {
  readonly labels: Labels;
  readonly addresses: readonly string[];
}

/** A step of {@link AddressGroups.fill} compares at most so many pods with one group. */
const podsPerStep = 64;

/**
 * Pods by the selectors of policies. A group is computed once, however many pods' policies name it, and a pod that changes is
 * compared with each group once. What compares many pods waits: groups that have been named for {@link AddressGroups.fill}, and
 * pods whose namespace has other labels for {@link AddressGroups.place}. A group that no cell uses takes one bit for each pod.
 */
export class AddressGroups {
  readonly #pods = new Map<string, PodFacts>();
  readonly #namespaces = new Map<string, Labels>();
  readonly #nodes = new Map<string, NodeFacts>();
  readonly #groups = new Map<string, Group>();
  /** Those of nodes: few, beside those that users' policies name. */
  readonly #ofNodes = new Map<string, Group>();
  readonly #touched = new Set<string>();
  /** Pods that were forgotten, or whose namespace has other labels than when they were compared: as they were then. */
  readonly #unplaced = new Map<string, PodFacts>();
  readonly #podNumbers = new Numbering();
  readonly #nodeNumbers = new Numbering();
  /** Groups that not all pods have been compared with. */
  readonly #unfilled = new FillQueue();
  /** Policies of administrators give the same selectors for each pod. */
  readonly #names = new WeakMap<object, string>();

  /** How many groups there are. */
  get size(): number {
    return this.#groups.size;
  }

  /** Labels of a namespace; undefined if it is not known. */
  namespaceLabels(name: string): Labels | undefined {
    return this.#namespaces.get(name);
  }

  /** Takes the labels of a namespace; undefined if it is gone. */
  setNamespace(name: string, labels: Labels | undefined): void {
    if (labels) this.#namespaces.set(name, labels);
    else this.#namespaces.delete(name);
    for (const [uid, pod] of this.#pods)
      if (pod.namespace === name && !this.#unplaced.has(uid)) this.#unplaced.set(uid, pod);
  }

  /** Names of all namespaces whose labels are known. */
  namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  /**
   * Compares pods that are gone, or whose namespace has other labels, with the groups, in steps of less than a millisecond. What
   * comes between two steps is done, too. Until it has ended, groups are of different states of the cluster.
   */
  *place(): Generator<undefined> {
    for (const [uid, before] of this.#unplaced) {
      this.#unplaced.delete(uid);
      this.#place(uid, before, this.#pods.get(uid));
      yield;
    }
  }

  /** Fills groups that have been named, in turns of the namespaces that want them, in steps of less than a millisecond. */
  *fill(): Generator<undefined> {
    while (this.#unfilled.size > 0) {
      this.#unfilled.step();
      yield;
    }
  }

  /** Notes that pods of a namespace wait for groups to be filled. */
  want(names: Iterable<string>, namespace: string): void {
    for (const name of names) this.#unfilled.want(name, namespace);
  }

  /** Does all that waits at once. */
  settle(): void {
    for (const _ of this.place());
    for (const _ of this.fill());
  }

  /** Whether nothing waits: groups have what the pods, nodes and namespaces that are known give them. */
  get isSettled(): boolean {
    return this.#unplaced.size + this.#unfilled.size === 0;
  }

  /** Whether all pods, or nodes, have been compared with a group. */
  isFilled(name: string): boolean {
    return this.#groups.has(name) && !this.#unfilled.has(name);
  }

  /** Takes a pod; undefined if it is gone. */
  setPod(uid: string, pod: PodFacts | undefined): void {
    const before = this.#unplaced.get(uid) ?? this.#pods.get(uid);
    this.#unplaced.delete(uid);
    if (pod) this.#pods.set(uid, pod);
    else this.#pods.delete(uid);
    this.#place(uid, before, pod);
  }

  /** Forgets a pod; groups lose it when they are settled. */
  forgetPod(uid: string): void {
    const pod = this.#pods.get(uid);
    this.#pods.delete(uid);
    if (pod && !this.#unplaced.has(uid)) this.#unplaced.set(uid, pod);
  }

  /** Takes a node; undefined if it is gone. */
  setNode(name: string, node: NodeFacts | undefined): void {
    const before = this.#nodes.get(name);
    if (node) this.#nodes.set(name, node);
    else this.#nodes.delete(name);
    const number = this.#nodeNumbers.of(name);
    for (const [groupName, group] of this.#ofNodes)
      this.#placeNode(groupName, group, { number, before, after: node });
    if (!node) this.#nodeNumbers.release(name);
  }

  /** Whether the labels of a namespace are known. */
  knowsNamespace(name: string): boolean {
    return this.#namespaces.has(name);
  }

  /** Whether a pod has what a selector asks for. */
  selects(selector: GroupSelector, pod: PodFacts): boolean {
    return this.#isMember(selector, pod);
  }

  /** A pod by its UID. */
  pod(uid: string): PodFacts | undefined {
    return this.#pods.get(uid);
  }

  /** All pods by their UIDs. */
  pods(): Iterable<readonly [uid: string, pod: PodFacts]> {
    return this.#pods.entries();
  }

  /** The name of the group of a selector: the same for the same selector, also in another life of kip. */
  name(selector: GroupSelector): string {
    const key = selector.nodes ?? selector;
    const name = this.#names.get(key) ?? groupName(selector);
    this.#names.set(key, name);
    if (!this.#groups.has(name)) this.#create(name, selector);
    return name;
  }

  /**
   * Notes that a cell uses a group, or no longer does. One that is used has its addresses stored; one that is neither used nor held
   * is forgotten.
   *
   * @returns how many use it
   */
  use(name: string, change: 1 | -1): number {
    const group = this.#groups.get(name);
    if (!group) return 0;
    group.uses += change;
    if (group.uses > 0) group.counts ??= this.#countsOf(group);
    else if (!group.selector.numbersOf) {
      group.counts = undefined;
      group.touched.clear();
    }
    this.#forgetUnused(name, group);
    return group.uses;
  }

  /** Notes that something depends on the size of a group, or no longer does. */
  hold(name: string, change: 1 | -1): void {
    const group = this.#groups.get(name);
    if (!group) return;
    group.holds += change;
    this.#forgetUnused(name, group);
  }

  /** Forgets groups that were named and are neither used nor held. */
  prune(): void {
    for (const [name, group] of this.#groups) this.#forgetUnused(name, group);
  }

  /** The addresses of a group now. */
  addresses(name: string): readonly string[] {
    const group = this.#groups.get(name);
    return group ? [...(group.counts ?? this.#countsOf(group)).keys()] : [];
  }

  /** How much a group has now. */
  sizeOf(name: string): GroupSize {
    const group = this.#groups.get(name);
    if (!group) return { addresses: 0, bytes: 0, numbers: 0 };
    const { addresses, bytes, counts, selector } = group;
    const numbers = selector.numbersOf ? Math.min(mostNumbers, counts?.size ?? 0) : 0;
    return { addresses, bytes, numbers };
  }

  /** Numbers that pods of a selector have for a named port: what their group has, see {@link numbersName}. */
  portNumbers(selector: GroupSelector, port: PortName, most: number = mostNumbers): PortNumbers {
    const group = this.#groups.get(this.numbersName(selector, port));
    return firstNumbers(group ? chosenOf(group) : noRankedNumbers, most);
  }

  /** The name of the group of numbers that pods of a selector have for a named port. */
  numbersName(selector: GroupSelector, port: PortName): string {
    return this.name({ ...selector, numbersOf: port });
  }

  /** The groups whose members have changed since the last call, and the addresses of those that are used. */
  takeChanges(): ReadonlyMap<string, GroupChange> {
    const changes = new Map<string, GroupChange>();
    for (const name of this.#touched) {
      const group = this.#groups.get(name);
      if (group) changes.set(name, takeChange(group));
    }
    this.#touched.clear();
    return changes;
  }

  #create(name: string, selector: GroupSelector): void {
    const group = newGroup(selector);
    // A selector that cannot be read fails here, not where pods are compared with it.
    for (const part of [selector.nodes, selector.namespaceSelector, selector.podSelector])
      if (part) matchesLabels(part, {});
    this.#groups.set(name, group);
    if (selector.nodes) this.#ofNodes.set(name, group);
    this.#unfilled.add(name, this.#fill(name, group));
  }

  *#fill(name: string, group: Group): Generator<undefined, undefined> {
    let count = 0;
    if (group.selector.nodes)
      for (const [uid, node] of this.#nodes) {
        const number = this.#nodeNumbers.of(uid);
        this.#placeNode(name, group, { number, before: node, after: node });
        if (++count % podsPerStep === 0) yield;
      }
    else
      for (const [uid, pod] of this.#pods) {
        const before = this.#unplaced.get(uid) ?? pod;
        this.#placePod(name, group, { number: this.#podNumbers.of(uid), before, after: pod });
        if (++count % podsPerStep === 0) yield;
      }
    takeChange(group); // What it has at first is not a change of it.
  }

  #forgetUnused(name: string, { uses, holds }: Group): void {
    if (uses + holds > 0) return;
    this.#groups.delete(name);
    this.#ofNodes.delete(name);
    this.#unfilled.delete(name);
  }

  #place(uid: string, before: PodFacts | undefined, after: PodFacts | undefined): void {
    const number = this.#podNumbers.of(uid);
    for (const [name, group] of this.#groups)
      if (!group.selector.nodes) this.#placePod(name, group, { number, before, after });
    if (!after) this.#podNumbers.release(uid);
  }

  #placePod(name: string, group: Group, { number, before, after }: Placement<PodFacts>): void {
    const wasIn = group.members.has(number);
    const isIn = after !== undefined && this.#isMember(group.selector, after);
    if (!wasIn && !isIn) return;
    this.#change(name, group, {
      number,
      before: wasIn && before ? ofPod(group, before) : noShare,
      after: isIn ? ofPod(group, after) : noShare,
    });
  }

  #placeNode(name: string, group: Group, { number, before, after }: Placement<NodeFacts>): void {
    this.#change(name, group, {
      number,
      before: group.members.has(number) && before ? ofAddresses(before.addresses) : noShare,
      after:
        after && matchesLabels(group.selector.nodes ?? {}, after.labels)
          ? ofAddresses(after.addresses)
          : noShare,
    });
  }

  #change(name: string, group: Group, { number, before, after }: Placement<Share>): void {
    if (!before || !after || areSame(before, after)) return;
    group.addresses += after.addresses - before.addresses;
    group.bytes += after.bytes - before.bytes;
    if (after.values.length > 0) group.members.add(number);
    else group.members.delete(number);
    for (const address of before.values) count(group, address, -before.weight);
    for (const address of after.values) count(group, address, after.weight);
    if (group.selector.numbersOf) group.chosen = undefined;
    this.#touched.add(name);
  }

  /** What the members of a group give it. */
  #countsOf(group: Group): Map<string, number> {
    const counts = new Map<string, number>();
    const add = ({ values, weight }: Share): void => {
      for (const value of values) counts.set(value, (counts.get(value) ?? 0) + weight);
    };
    for (const number of group.members.values()) {
      const node = this.#nodes.get(this.#nodeNumbers.nameOf(number) ?? "");
      const uid = this.#podNumbers.nameOf(number) ?? "";
      // Forgotten pods are members until they are placed.
      const pod = this.#unplaced.get(uid) ?? this.#pods.get(uid);
      if (group.selector.nodes) add(ofAddresses(node?.addresses ?? []));
      else if (pod) add(ofPod(group, pod));
    }
    return counts;
  }

  #isMember(selector: GroupSelector, pod: PodFacts): boolean {
    const { namespace, namespaceSelector, podSelector, port } = selector;
    if (namespace !== undefined && namespace !== pod.namespace) return false;
    const labels = this.#namespaces.get(pod.namespace);
    // A namespace that is not known yet has labels that are not known.
    if (namespaceSelector && (!labels || !matchesLabels(namespaceSelector, labels))) return false;
    return (
      matchesLabels(podSelector, pod.labels) && (!port || pod.ports.some((p) => isPort(p, port)))
    );
  }
}

/** A pod or node as it was when a group last saw it, and as it is. */
interface Placement<T> {
  readonly number: number;
  readonly before: T | undefined;
  readonly after: T | undefined;
}

function isPort(port: NamedPort, wanted: NonNullable<GroupSelector["port"]>): boolean {
  if (port.name !== wanted.name || port.protocol !== wanted.protocol) return false;
  return "number" in wanted ? port.port === wanted.number : !wanted.otherThan.has(port.port);
}
