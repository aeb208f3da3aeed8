import type { Node, Pod } from "@kip/k8s-types";
import { canonicalAddress } from "@kip/network-view";
import type { AddressGroups, NodeFacts } from "./address-groups.ts";
import { nodeFacts } from "./node-facts.ts";

/** A pod with the network of its host, by the node that it counts for. */
interface HostPod {
  readonly node: string;
  readonly addresses: readonly string[];
}

/**
 * Addresses of nodes, for policies that choose nodes: their own, and those of pods with the network of their host. On a virtual node
 * these have machines of their own; policies do not reach such a pod as a pod.
 */
export class NodeAddresses {
  readonly #groups: AddressGroups;
  readonly #nodes = new Map<string, NodeFacts>();
  /** By UID. */
  readonly #pods = new Map<string, HostPod>();
  /** UIDs of pods by their node. */
  readonly #podsOf = new Map<string, Set<string>>();

  constructor(groups: AddressGroups) {
    this.#groups = groups;
  }

  /** Takes a node; undefined if it is gone. */
  setNode(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name);
    const facts = node && nodeFacts(node);
    // The status of a node is written often.
    if (JSON.stringify(before) === JSON.stringify(facts)) return;
    if (facts) this.#nodes.set(name, facts);
    else this.#nodes.delete(name);
    this.#groups.setNode(name, facts);
    for (const uid of this.#podsOf.get(name) ?? []) this.#show(uid);
  }

  /** Takes a pod, of whatever network; undefined if it is gone. @returns whether anything has changed */
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

  /** Forgets all pods: they are no longer watched. */
  forgetPods(): void {
    for (const uid of this.#pods.keys()) this.setPod(uid, undefined);
    this.#podsOf.clear();
  }

  /** Forgets all nodes: they are no longer watched. */
  forgetNodes(): void {
    for (const name of this.#nodes.keys()) this.setNode(name, undefined);
  }

  /** A pod is to groups as a node with the labels of its own one. */
  #show(uid: string): void {
    const pod = this.#pods.get(uid);
    const node = pod && this.#nodes.get(pod.node);
    const addresses = (pod?.addresses ?? []).filter((each) => !node?.addresses.includes(each));
    // No node has such a name.
    this.#groups.setNode(
      `pod/${uid}`,
      node && addresses.length > 0 ? { labels: node.labels, addresses } : undefined,
    );
  }
}

function readHostPod({ spec, status }: Pod): HostPod | undefined {
  const hasEnded = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (spec.hostNetwork !== true || spec.nodeName === undefined || hasEnded) return undefined;
  const ips = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP];
  const addresses = ips.flatMap((ip) => canonicalAddress(ip ?? "") ?? []);
  return { node: spec.nodeName, addresses };
}
