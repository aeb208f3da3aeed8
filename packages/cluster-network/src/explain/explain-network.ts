import type { Pod } from "@kip/k8s-types";
import { canonicalAddress, ipFamily, type Protocol } from "@kip/network-view";
import {
  addressesOf,
  hasEnded,
  knownCluster,
  nodeOf,
  podName,
  portsOf,
  type ClusterObjects,
  type KnownCluster,
} from "./cluster-objects.ts";
import { explainHostPort, explainOthersNodePort, hostAddressesOf } from "./explain-cell-address.ts";
import { describePod, troubles } from "./describe-pod.ts";
import { explainPolicies } from "./explain-policies.ts";
import { explainService, refusedServiceAt, serviceAt } from "./explain-service.ts";
import { after, finding, together, type Finding } from "./finding.ts";
import { isInRange } from "./matching-rule.ts";
import { whyNotReady } from "./readiness.ts";
import { findPod, findTarget, placeOfPod, type Target } from "./target.ts";

/** A question about the network. */
export interface NetworkQuestion {
  /** The pod that connects: a name, or a namespace and a name. */
  readonly pod: string;
  /** The destination. If it is absent, the pod is described. */
  readonly to?: string | undefined;
  /** Namespace for names without one. */
  readonly namespace: string;
  readonly port?: number | undefined;
  /** @default every protocol of a Service, otherwise TCP */
  readonly protocol?: Protocol | undefined;
}

/**
 * Explains in sentences whether a pod can reach a destination, and why: the Service, its endpoints, and the policies of both sides. Uses the
 * same computation as the rules of cells.
 */
export function explainNetwork(objects: ClusterObjects, question: NetworkQuestion): Finding {
  const source = findPod(objects, question.pod, question.namespace);
  const found = source
    ? explainFrom(knownCluster(objects, source.spec.nodeName ?? ""), source, question)
    : finding("absent", `There is no pod ${question.pod} in namespace ${question.namespace}`);
  const missing = objects.unread.map(({ resource, consequence }) => `${resource}: ${consequence}`);
  const isUnsure = found.outcome !== "described" && objects.unread.some(({ decides }) => decides);
  return {
    outcome: isUnsure ? "unknown" : found.outcome,
    sentences: [...found.sentences, ...missing],
  };
}

function explainFrom(cluster: KnownCluster, source: Pod, question: NetworkQuestion): Finding {
  if (question.to === undefined) return describePod(cluster, source);
  const target = findTarget(cluster, question.to, question.namespace);
  if (hasEnded(source) || addressesOf(source).length === 0)
    return finding("absent", whyNotReady(source) ?? `${podName(source)} does not run`);
  const found = toTarget(cluster, source, { ...question, target });
  const lacks = troubles(cluster, source);
  const all = after([placeOfPod(cluster, source), ...lacks], found);
  return lacks.length > 0 ? { ...all, outcome: "unknown" } : all;
}

interface TargetQuestion extends NetworkQuestion {
  readonly target: Target;
}

function toTarget(cluster: KnownCluster, source: Pod, question: TargetQuestion): Finding {
  const { target, protocol } = question;
  switch (target.kind) {
    case "none":
      return finding("absent", target.reason);
    case "name":
      return finding(
        "unknown",
        `${target.name} is not a name of this cluster's Services: policies look at addresses, so ask again with an address that it has`,
      );
    case "service": {
      const port = question.port ?? target.port;
      return explainService(cluster, { source, key: target.key, port, protocol });
    }
    case "pod":
      return toPod(cluster, source, { ...question, target });
    case "address":
      break;
  }
  const port = question.port ?? target.port;
  if (port === undefined) return finding("unknown", "Which port? Give it as HOST:PORT or --port");
  return toAddress(cluster, source, { address: target.address, port, protocol: protocol ?? "TCP" });
}

function toPod(
  cluster: KnownCluster,
  source: Pod,
  question: NetworkQuestion & { readonly target: Target & { readonly kind: "pod" } },
): Finding {
  const { target, protocol = "TCP" } = question;
  const { pod } = target;
  const [first, ...others] = addressesOf(pod);
  if (first === undefined || hasEnded(pod))
    return finding("absent", whyNotReady(pod) ?? `${podName(pod)} has no address`);
  const families = new Set(addressesOf(source).map(ipFamily));
  const common = [first, ...others].filter((address) => families.has(ipFamily(address)));
  const addresses = common.length > 0 ? common : [first];
  const given = question.port ?? target.port;
  const declared = portsOf(pod).filter((each) => (each.protocol ?? "TCP") === protocol);
  const ports = given === undefined ? declared.map((each) => each.containerPort) : [given];
  if (ports.length === 0)
    return finding("unknown", `${podName(pod)} names no port: which one? Give it as --port`);
  const isHost = pod.spec.hostNetwork === true;
  const notes = [
    placeOfPod(cluster, pod),
    ...(isHost ? [`${podName(pod)} has its node's network: its policies do not apply`] : []),
    ...troubles(cluster, pod),
  ];
  const found = addresses.map((address) =>
    together(ports.map((port) => explainPolicies(cluster, source, { address, port, protocol }))),
  );
  const outcomes = new Set(found.map(({ outcome }) => outcome));
  const differ = "The answers for IPv4 and IPv6 differ:";
  return after([...notes, ...(outcomes.size > 1 ? [differ] : [])], together(found));
}

function toAddress(
  cluster: KnownCluster,
  source: Pod,
  attempt: { readonly address: string; readonly port: number; readonly protocol: Protocol },
): Finding {
  const { address } = attempt;
  if (isLoopback(address))
    return finding(
      "passes",
      `${address} is the loopback address of ${podName(source)} itself: what listens there in the pod answers, and no Service, NodePort or policy decides`,
    );
  const nodes = nodeOf(cluster.objects, source.spec.nodeName)?.status?.addresses ?? [];
  const nodeAddresses = nodes.flatMap((each) => canonicalAddress(each.address) ?? []);
  const ownHost = [...nodeAddresses, ...hostAddressesOf(source)];
  const service = serviceAt(cluster, attempt, ownHost);
  // The sending cell translates the packet for the Service, before it could arrive at a host port of another cell.
  const isHostPort = ownHost.includes(address) || !service;
  const hostPort = isHostPort ? explainHostPort(cluster, source, attempt) : undefined;
  if (hostPort) return hostPort;
  if (service) {
    const lead = service.isNodePort
      ? `${address} is an address of the pod's node or cell, and the port a NodePort of Service ${service.key}`
      : `${address} is an address of Service ${service.key}`;
    return after([lead], explainService(cluster, { source, ...attempt, ...service }));
  }
  const refused = refusedServiceAt(cluster, address);
  if (refused !== undefined) return explainService(cluster, { source, ...attempt, key: refused });
  if (cluster.objects.serviceRanges.some((range) => isInRange(address, range)))
    return finding(
      "dropped",
      `${address} is in the range of Services, and no Service has it: packets are dropped`,
    );
  return explainOthersNodePort(cluster, attempt) ?? explainPolicies(cluster, source, attempt);
}

function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}
