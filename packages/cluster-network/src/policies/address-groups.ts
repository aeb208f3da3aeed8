import { createHash } from "node:crypto";
import type { LabelSelector } from "@kip/k8s-types/network";
import type { NamedPort, PodFacts } from "./pod-facts.ts";
import { matches, type Labels } from "./selector.ts";

/** Which pods a group has, or which nodes. */
export interface GroupSelector {
  /** Nodes by their labels; then all else has no effect. */
  readonly nodes?: LabelSelector | undefined;
  /** The one namespace; absent if `namespaceSelector` chooses. */
  readonly namespace?: string | undefined;
  readonly namespaceSelector?: LabelSelector | undefined;
  readonly podSelector: LabelSelector;
  /** Only pods that have this number for the name of a port. */
  readonly port?: { readonly name: string; readonly protocol: string; readonly number: number };
}

/** Addresses that a group has got and lost. */
export interface GroupChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

/** What policies need to know of a node. */
export interface NodeFacts {
  readonly labels: Labels;
  readonly addresses: readonly string[];
}

interface Group {
  readonly selector: GroupSelector;
  /** Addresses of each pod that is in it, by UID, or of each node, by name. */
  readonly members: Map<string, readonly string[]>;
  /** How many pods have an address: two, while one has ended and the other has its address already. */
  readonly counts: Map<string, number>;
  /** Since the last {@link AddressGroups.takeChanges}: whether an address was in the group before. */
  readonly touched: Map<string, boolean>;
  uses: number;
  /** Of its addresses, as lines have them. */
  bytes: number;
}

/**
 * Pods by the selectors of policies. A group is computed once, however many pods' policies name it, and a pod that changes is
 * compared with each group once.
 */
export class AddressGroups {
  readonly #pods = new Map<string, PodFacts>();
  readonly #namespaces = new Map<string, Labels>();
  readonly #nodes = new Map<string, NodeFacts>();
  readonly #groups = new Map<string, Group>();
  readonly #touched = new Set<string>();
  /** Policies of administrators give the same selectors for each pod. */
  readonly #names = new WeakMap<object, string>();

  /** Labels of a namespace; undefined if it is not known. */
  namespaceLabels(name: string): Labels | undefined {
    return this.#namespaces.get(name);
  }

  /** Takes the labels of a namespace; undefined if it is gone. */
  setNamespace(name: string, labels: Labels | undefined): void {
    if (labels) this.#namespaces.set(name, labels);
    else this.#namespaces.delete(name);
    for (const [uid, pod] of this.#pods) if (pod.namespace === name) this.#place(uid, pod);
  }

  /** Takes a pod; undefined if it is gone. */
  setPod(uid: string, pod: PodFacts | undefined): void {
    if (pod) this.#pods.set(uid, pod);
    else this.#pods.delete(uid);
    this.#place(uid, pod);
  }

  /** Takes a node; undefined if it is gone. */
  setNode(name: string, node: NodeFacts | undefined): void {
    if (node) this.#nodes.set(name, node);
    else this.#nodes.delete(name);
    for (const [groupName, group] of this.#groups)
      if (group.selector.nodes)
        this.#placeIn(groupName, group, { uid: name, after: atNode(group, node) });
  }

  /** Names of all nodes. */
  nodes(): Iterable<string> {
    return this.#nodes.keys();
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
   * Notes that a cell uses a group, or no longer does. A group without uses is forgotten.
   *
   * @returns how many use it
   */
  use(name: string, change: 1 | -1): number {
    const group = this.#groups.get(name);
    if (!group) return 0;
    group.uses += change;
    if (group.uses <= 0) this.#groups.delete(name);
    return group.uses;
  }

  /** Forgets groups that were named and are not used. */
  prune(): void {
    for (const [name, { uses }] of this.#groups) if (uses <= 0) this.#groups.delete(name);
  }

  /** The addresses of a group now. */
  addresses(name: string): readonly string[] {
    return [...(this.#groups.get(name)?.counts.keys() ?? [])];
  }

  /** About how many bytes the addresses of a group take in lines. */
  bytes(name: string): number {
    return this.#groups.get(name)?.bytes ?? 0;
  }

  /** Numbers that pods of a selector have for a named port, sorted. */
  portNumbers(
    selector: GroupSelector,
    { name, protocol }: { readonly name: string; readonly protocol: string },
  ): readonly number[] {
    const numbers = new Set<number>();
    for (const pod of this.#pods.values()) {
      if (pod.addresses.length === 0 || pod.ports.length === 0) continue;
      if (!this.#isMember(selector, pod)) continue;
      for (const port of pod.ports)
        if (port.name === name && port.protocol === protocol) numbers.add(port.port);
    }
    return [...numbers].sort((a, b) => a - b);
  }

  /** What has changed in each group since the last call. */
  takeChanges(): ReadonlyMap<string, GroupChange> {
    const changes = new Map<string, GroupChange>();
    for (const name of this.#touched) {
      const group = this.#groups.get(name);
      if (!group) continue;
      const add: string[] = [];
      const remove: string[] = [];
      for (const [address, wasIn] of group.touched) {
        const isIn = group.counts.has(address);
        if (isIn && !wasIn) add.push(address);
        if (wasIn && !isIn) remove.push(address);
      }
      group.touched.clear();
      if (add.length + remove.length > 0) changes.set(name, { add, remove });
    }
    this.#touched.clear();
    return changes;
  }

  #create(name: string, selector: GroupSelector): void {
    const group: Group = {
      selector,
      members: new Map(),
      counts: new Map(),
      touched: new Map(),
      uses: 0,
      bytes: 0,
    };
    this.#groups.set(name, group);
    if (selector.nodes)
      for (const [uid, node] of this.#nodes)
        this.#placeIn(name, group, { uid, after: atNode(group, node) });
    else for (const [uid, pod] of this.#pods) this.#placePod(name, group, uid, pod);
    // What it has at first is not a change of it.
    group.touched.clear();
  }

  #place(uid: string, pod: PodFacts | undefined): void {
    for (const [name, group] of this.#groups)
      if (!group.selector.nodes) this.#placePod(name, group, uid, pod);
  }

  #placePod(name: string, group: Group, uid: string, pod: PodFacts | undefined): void {
    const after = pod && this.#isMember(group.selector, pod) ? pod.addresses : [];
    this.#placeIn(name, group, { uid, after });
  }

  #placeIn(
    name: string,
    group: Group,
    { uid, after }: { readonly uid: string; readonly after: readonly string[] },
  ): void {
    const before = group.members.get(uid) ?? [];
    if (before.length === after.length && before.every((address, i) => address === after[i]))
      return;
    for (const address of before) count(group, address, -1);
    for (const address of after) count(group, address, 1);
    if (after.length > 0) group.members.set(uid, after);
    else group.members.delete(uid);
    this.#touched.add(name);
  }

  #isMember(selector: GroupSelector, pod: PodFacts): boolean {
    const { namespace, namespaceSelector, podSelector, port } = selector;
    if (namespace !== undefined && namespace !== pod.namespace) return false;
    const labels = this.#namespaces.get(pod.namespace);
    // A namespace that is not known yet has labels that are not known.
    if (namespaceSelector && (!labels || !matches(namespaceSelector, labels))) return false;
    return matches(podSelector, pod.labels) && (!port || pod.ports.some((p) => isPort(p, port)));
  }
}

function atNode({ selector }: Group, node: NodeFacts | undefined): readonly string[] {
  return node && matches(selector.nodes ?? {}, node.labels) ? node.addresses : [];
}

function isPort(port: NamedPort, wanted: NonNullable<GroupSelector["port"]>): boolean {
  return (
    port.name === wanted.name && port.protocol === wanted.protocol && port.port === wanted.number
  );
}

function count(group: Group, address: string, change: 1 | -1): void {
  const before = group.counts.get(address) ?? 0;
  if (before === 0) group.bytes += address.length + '"",'.length;
  if (before + change === 0) group.bytes -= address.length + '"",'.length;
  if (!group.touched.has(address)) group.touched.set(address, before > 0);
  if (before + change > 0) group.counts.set(address, before + change);
  else group.counts.delete(address);
}

function groupName(selector: GroupSelector): string {
  const { nodes, namespace, namespaceSelector, podSelector, port } = selector;
  const text = JSON.stringify(
    nodes
      ? ["nodes", sorted(nodes)]
      : [namespace, sorted(namespaceSelector), sorted(podSelector), port],
  );
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** The same text for the same selector, in whatever order its keys were written. */
function sorted(selector: LabelSelector | undefined): unknown {
  if (!selector) return undefined;
  const labels = Object.entries(selector.matchLabels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) =>
    JSON.stringify([key, operator, [...values].sort()]),
  );
  return [labels, expressions.sort()];
}
