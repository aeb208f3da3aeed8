import type { Node, Pod } from "@kip/k8s-types";
import { canonicalAddress } from "@kip/network-view";
import type { AddressGroups, NodeFacts } from "./address-groups.ts";
import { nodeFacts } from "./node-facts.ts";

/** The host of a pod, and the node that it belongs to. */
interface HostPod {
  readonly node: string;
  readonly addresses: readonly string[];
}

/**
 * Addresses of nodes, for policies that select nodes: those of the nodes themselves, and those of their pods' hosts. On a virtual node, each
 * pod has a separate machine as its host. Host ports and NodePorts listen there, and a pod with `hostNetwork` has its address.
 */
export class NodeAddresses {
  readonly #groups: AddressGroups;
  readonly #nodes = new Map<string, NodeFacts>();
  /** By UID. */
  readonly #pods = new Map<string, HostPod>();
  /** UIDs of pods by their node. */
  readonly #podsOf = new Map<string, Set<string>>();
  /** UIDs of pods whose hosts have other addresses than the node. Pods on ordinary nodes are not included. */
  readonly #shown = new Set<string>();

  constructor(groups: AddressGroups) {
    this.#groups = groups;
  }

  /** Sets a node. Undefined if it was deleted. */
  setNode(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name);
    const facts = node && nodeFacts(node);
    // The status of a node changes often.
    if (JSON.stringify(before) === JSON.stringify(facts)) return;
    if (facts) this.#nodes.set(name, facts);
    else this.#nodes.delete(name);
    this.#groups.setNode(name, facts);
    for (const uid of this.#podsOf.get(name) ?? []) this.#show(uid);
  }

  /** Sets a pod, with or without `hostNetwork`. Undefined if it was deleted. @returns whether anything has changed */
  setPod(uid: string, pod: Pod | undefined): boolean {
    const before = this.#pods.get(uid);
    const next = pod && readHostPod(pod);
    if (JSON.stringify(before) === JSON.stringify(next)) return false;
    if (before && before.node !== next?.node) this.#podsOf.get(before.node)?.delete(uid);
    if (next) {
      this.#pods.set(uid, next);
      this.#podsOf.set(next.node, (this.#podsOf.get(next.node) ?? new Set()).add(uid));
    } else this.#pods.delete(uid);
    this.#show(uid);
    return true;
  }

  /** Removes all pods. Call this when they are no longer watched. */
  forgetPods(): void {
    this.#pods.clear();
    this.#podsOf.clear();
    for (const uid of this.#shown) this.#show(uid);
  }

  /** Removes all nodes. Call this when they are no longer watched. */
  forgetNodes(): void {
    for (const name of this.#nodes.keys()) this.setNode(name, undefined);
  }

  /** Adds the host of a pod to the groups, as a node with the labels of the pod's node. */
  #show(uid: string): void {
    const pod = this.#pods.get(uid);
    const node = pod && this.#nodes.get(pod.node);
    const addresses = (pod?.addresses ?? []).filter((each) => !node?.addresses.includes(each));
    const facts = node && addresses.length > 0 ? { labels: node.labels, addresses } : undefined;
    if (!this.#shown.delete(uid) && !facts) return;
    if (facts) this.#shown.add(uid);
    // Names of nodes have no slash.
    this.#groups.setNode(`pod/${uid}`, facts);
  }
}

function readHostPod({ spec, status }: Pod): HostPod | undefined {
  const hasEnded = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (spec.nodeName === undefined || hasEnded) return undefined;
  const hosts = status?.hostIPs?.map(({ ip }) => ip) ?? [status?.hostIP];
  const own = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP];
  const ips = spec.hostNetwork === true ? [...own, ...hosts] : hosts;
  const addresses = ips.flatMap((ip) => canonicalAddress(ip ?? "") ?? []);
  if (addresses.length === 0) return undefined;
  return { node: spec.nodeName, addresses: [...new Set(addresses)] };
}
