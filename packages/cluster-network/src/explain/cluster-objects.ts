import type { Container, Event, Node, Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import { canonicalAddress } from "@kip/network-view";
import { podFacts } from "../policies/pod-facts.ts";
import { PolicyIndex } from "../policies/policy-index.ts";
import { readTierPolicy, type TierKind, type TierObject } from "../policies/tier-policy.ts";
import { ServiceIndex } from "../services/service-index.ts";
import { PodPolicies } from "./pod-policies.ts";
import { zoneLabel } from "../services/usable-endpoints.ts";

/** A kind of objects that the user may not read, or that the API server does not have. */
export interface Unread {
  /** Its resource name in RBAC. */
  readonly resource: string;
  /** What the answer does not include because of this. */
  readonly consequence: string;
  /** Whether the answer might be different with these objects. */
  readonly decides: boolean;
}

/** All listed objects that an answer is computed from. */
export interface ClusterObjects {
  readonly services: readonly StoredService[];
  readonly slices: readonly EndpointSlice[];
  readonly policies: readonly NetworkPolicy[];
  /** Policies of administrators, with their kind. */
  readonly tiers: readonly (readonly [TierKind, TierObject])[];
  readonly namespaces: readonly Namespace[];
  readonly pods: readonly Pod[];
  readonly nodes: readonly Node[];
  /** Events of pods. */
  readonly events: readonly Event[];
  /** CIDRs of ClusterIPs. */
  readonly serviceRanges: readonly string[];
  readonly unread: readonly Unread[];
}

/** No objects. */
export const noObjects: ClusterObjects = {
  services: [],
  slices: [],
  policies: [],
  tiers: [],
  namespaces: [],
  pods: [],
  nodes: [],
  events: [],
  serviceRanges: [],
  unread: [],
};

/** Puts the objects into the same indexes that the rules of cells are made from. */
export interface KnownCluster {
  readonly objects: ClusterObjects;
  readonly index: ServiceIndex;
  readonly policies: PodPolicies;
}

/** The cluster from the view of a pod on a node. */
export function knownCluster(objects: ClusterObjects, nodeName: string): KnownCluster {
  const zone = nodeOf(objects, nodeName)?.metadata?.labels?.[zoneLabel];
  const index = new ServiceIndex({ name: nodeName, zone });
  for (const service of objects.services)
    index.setService(`${service.metadata.namespace}/${service.metadata.name}`, service);
  for (const slice of objects.slices) index.setSlice(slice);
  // This decides which Service gets an address that several Services claim.
  index.takeChanges();
  const policies = new PolicyIndex();
  for (const { metadata } of objects.namespaces)
    policies.groups.setNamespace(metadata.name, metadata.labels ?? {});
  for (const pod of objects.pods) {
    policies.groups.setPod(pod.metadata.uid, podFacts(pod));
    policies.nodes.setPod(pod.metadata.uid, pod);
  }
  for (const node of objects.nodes) policies.nodes.setNode(node.metadata?.name ?? "", node);
  for (const policy of objects.policies) policies.setPolicy(policy);
  for (const slice of objects.slices) policies.setSlice(slice);
  for (const [kind, object] of objects.tiers) {
    const policy = readTierPolicy(kind, object, () => {});
    if (policy) policies.setTierPolicy(policy.title, policy);
  }
  const running = objects.pods.filter((pod) => !hasEnded(pod));
  return { objects, index, policies: new PodPolicies(policies, running) };
}

/** Finds a node by its name. */
export function nodeOf({ nodes }: ClusterObjects, name: string | undefined): Node | undefined {
  return nodes.find(({ metadata }) => metadata?.name === name);
}

/** Addresses of a pod, whether or not policies apply to it. */
export function addressesOf({ status }: Pod): readonly string[] {
  const ips = status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP];
  return ips.flatMap((ip) => canonicalAddress(ip ?? "") ?? []);
}

/** Whether a pod has ended. Its address may then belong to another one. */
export function hasEnded({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** The pod that an address belongs to. Pods with `hostNetwork` share their node's address. */
export function podAt({ pods }: ClusterObjects, address: string): Pod | undefined {
  return pods.find(
    (pod) => pod.spec.hostNetwork !== true && !hasEnded(pod) && addressesOf(pod).includes(address),
  );
}

/** Ports of a pod's containers, including sidecars. */
export function portsOf({ spec }: Pod): readonly NonNullable<Container["ports"]>[number][] {
  const sidecars = (spec.initContainers ?? []).filter((c) => c.restartPolicy === "Always");
  return [...spec.containers, ...sidecars].flatMap(({ ports = [] }) => ports);
}

/** The name of a pod in sentences. */
export function podName({ metadata }: Pod): string {
  return `pod ${metadata.namespace}/${metadata.name}`;
}
