import {
  canonicalAddress,
  parseEndpoint,
  type Protocol,
  type ServicePortView,
} from "@kip/network-view";
import type { PodFacts } from "../policies/pod-facts.ts";
import type { NetworkViews } from "../views/network-views.ts";
import { isAllowed } from "./is-allowed.ts";

/** What is to be reached. */
export type NetworkTarget =
  | { readonly kind: "service"; readonly key: string; readonly port?: number | undefined }
  | { readonly kind: "address"; readonly address: string; readonly port: number };

/** A question about the network. */
export interface NetworkQuestion {
  /** UID of the pod that wants to connect. */
  readonly podUid: string;
  readonly target: NetworkTarget;
  /** @default "TCP" */
  readonly protocol?: Protocol | undefined;
}

/**
 * Says in sentences what decides whether a pod reaches something: the Service, its endpoints, and the policies of both sides.
 * From the same computation as the rules of cells.
 */
export function explainNetwork(views: NetworkViews, question: NetworkQuestion): readonly string[] {
  const { target, protocol = "TCP" } = question;
  const pod = views.groups.pod(question.podUid);
  if (!pod) return ["The pod is not known, or has ended"];
  if (target.kind === "service") return explainService(views, question, target);
  const address = canonicalAddress(target.address);
  if (address === undefined) return [`"${target.address}" is not an IP address`];
  const service = serviceAt(views, { address, port: target.port, protocol });
  if (service !== undefined) {
    const { port } = target;
    return [
      `${address} is an address of Service ${service}`,
      ...explainService(views, question, { kind: "service", key: service, port }),
    ];
  }
  return explainPolicies(views, question.podUid, { address, port: target.port, protocol });
}

function explainService(
  views: NetworkViews,
  { podUid, protocol = "TCP" }: NetworkQuestion,
  { key, port: number }: NetworkTarget & { kind: "service" },
): readonly string[] {
  const service = views.index.service(key);
  if (!service) return [`There is no Service ${key}`];
  const view = views.index.view(key);
  if (!view) return [withoutRules(key, service.spec?.type, service.spec?.clusterIP)];
  const port = view.ports.find(
    (candidate) =>
      candidate.protocol === protocol && (number === undefined || candidate.port === number),
  );
  if (!port) {
    const known = view.ports.map((p) => `${p.port}/${p.protocol}`).join(", ");
    const wanted = number === undefined ? protocol : `${number}/${protocol}`;
    return [`Service ${key} has no port ${wanted}, only ${known}: connections are refused`];
  }
  const isLocal = view.isInternalLocal === true;
  const list = isLocal ? (port.localEndpoints ?? []) : port.endpoints;
  if (list.length === 0) return [withoutEndpoints(views, { key, port, isLocal })];
  const lead = `Service ${key}, port ${port.port}/${protocol}, leads to ${list.length === 1 ? "1 endpoint" : `${list.length} endpoints`}`;
  const sentences = list.flatMap((text) => {
    const endpoint = parseEndpoint(text);
    return endpoint ? explainPolicies(views, podUid, { ...endpoint, protocol }) : [];
  });
  return [lead, ...new Set(sentences)];
}

function withoutRules(
  key: string,
  type: string | undefined,
  clusterIp: string | undefined,
): string {
  if (type === "ExternalName")
    return `Service ${key} is a name for another host: DNS answers with that name, and nodes have no rules for it`;
  if (clusterIp === "None" || clusterIp === undefined || clusterIp === "")
    return `Service ${key} is headless: DNS answers with the addresses of its pods, and nodes have no rules for it`;
  return `Service ${key} is left to another proxy by its label service.kubernetes.io/service-proxy-name`;
}

function withoutEndpoints(
  views: NetworkViews,
  { key, port, isLocal }: { key: string; port: ServicePortView; isLocal: boolean },
): string {
  if (isLocal && port.endpoints.length > 0)
    return `Service ${key} has internalTrafficPolicy Local and no endpoint on this virtual node: packets are dropped`;
  const endpoints = views.index.slices(key).flatMap((slice) => slice.endpoints ?? []);
  const notReady = endpoints.filter(({ conditions }) => conditions?.ready === false).length;
  const reason =
    endpoints.length === 0
      ? "no pod matches its selector, or none has an address"
      : notReady === endpoints.length
        ? `none of its ${endpoints.length} endpoints is ready`
        : `none of its endpoints has the port "${port.name}"`;
  return `Service ${key}, port ${port.port}, refuses connections: ${reason}`;
}

function explainPolicies(
  views: NetworkViews,
  podUid: string,
  attempt: { readonly address: string; readonly port: number; readonly protocol: Protocol },
): readonly string[] {
  const { address, port, protocol } = attempt;
  const addressesOf = (group: string): readonly string[] => views.groups.addresses(group);
  const own = views.groups.pod(podUid);
  const policy = views.policyOf(podUid);
  if (!own || !policy) return [];
  const where = `${address} port ${port}/${protocol}`;
  const peer = views.podAt(address);
  const peerName = peer ? `pod ${nameOf(peer.facts)} (${where})` : where;
  if (own.addresses.includes(address)) return [`A pod always reaches itself (${where})`];
  if (!isAllowed(policy.view.egress, attempt, addressesOf))
    return [`${peerName} is not allowed by the egress rules of ${listed(policy.egress)}`];
  const peerPolicy = peer && views.policyOf(peer.uid);
  const back = own.addresses.find((a) => a.includes(":") === address.includes(":")) ?? "";
  if (!isAllowed(peerPolicy?.view.ingress, { ...attempt, address: back }, addressesOf))
    return [
      `${peerName} does not let this pod in: ingress rules of ${listed(peerPolicy?.ingress ?? [])}`,
    ];
  const deciding = [...policy.egress, ...(peerPolicy?.ingress ?? [])];
  if (deciding.length === 0) return [`No policy stands between this pod and ${peerName}`];
  return [`${peerName} is allowed by ${listed(deciding)}`];
}

/** The Service that has an address and port. */
function serviceAt(
  views: NetworkViews,
  { address, port, protocol }: { address: string; port: number; protocol: Protocol },
): string | undefined {
  for (const key of views.index.keys()) {
    const view = views.index.view(key);
    const addresses = [
      ...(view?.clusterIps ?? []),
      ...(view?.externalIps ?? []),
      ...(view?.loadBalancerIps ?? []),
    ];
    if (!addresses.includes(address)) continue;
    const isCluster = view?.clusterIps.includes(address) === true;
    if (isCluster || view?.ports.some((p) => p.port === port && p.protocol === protocol))
      return key;
  }
  return undefined;
}

function nameOf({ namespace, name }: PodFacts): string {
  return `${namespace}/${name}`;
}

function listed(names: readonly string[]): string {
  const unique = [...new Set(names)];
  return `${unique.length === 1 ? "policy" : "policies"} ${unique.join(", ")}`;
}
