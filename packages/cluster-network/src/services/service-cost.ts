import {
  encodeLine,
  limits,
  textFamily,
  type ServicePortView,
  type ServiceView,
} from "@kip/network-view";
import type { Cost } from "../budget/namespace-budget.ts";

/**
 * The budget for the Services of one namespace. Any user may create Services, and every cell gets all of them. 10,000 Services with one port
 * and 10 endpoints of each family take 220,000 elements and 6 MB.
 */
export const maxServicesCost: Cost = { elements: 250_000, bytes: 16 * 1024 * 1024 };

/**
 * The cost of a list of endpoints with session affinity, which has its own chain of four rules and three maps. To write all rules again, nft
 * takes 1.1 s of CPU time for 1,280 such lists, and 5.9 s for 3,066. So the time grows with the square of their number.
 */
const affinityChain = 8 * limits.chainElements;

/** With session affinity, each endpoint has an element in two of these maps. */
const affinityElements = 2;

/**
 * The cost of one Service, including addresses that it loses to others. Cells have one element for each address and port. For each ClusterIP
 * and port they also have one for each endpoint. Several external addresses share a chain.
 */
export function costOf(key: string, view: ServiceView): Cost {
  let elements = 0;
  for (const family of [4, 6]) elements += elementsOf(view, (text) => textFamily(text) === family);
  return { elements, bytes: lineLength(key, view) };
}

/** A copy of the view with empty lists of endpoints, which is small. */
export function withoutEndpoints(view: ServiceView): ServiceView {
  const ports = view.ports.map((port) => ({
    ...port,
    endpoints: [],
    localEndpoints: port.localEndpoints && [],
    servingEndpoints: port.servingEndpoints && [],
  }));
  return { ...view, ports };
}

/** All lists of endpoints of a port. */
export function endpointLists(port: ServicePortView): readonly (readonly string[])[] {
  return [port.endpoints, port.localEndpoints ?? [], port.servingEndpoints ?? []];
}

/** Computes the length of the encoded line without encoding it, because it may have two megabytes. */
function lineLength(key: string, view: ServiceView): number {
  let bytes = encodeLine({ kind: "service", key, view: withoutEndpoints(view) }).length;
  for (const list of view.ports.flatMap(endpointLists)) {
    // With its quotes, and a comma between two.
    for (const text of list) bytes += text.length + 3;
    if (list.length > 0) bytes -= 1;
  }
  return bytes;
}

function elementsOf(view: ServiceView, isWanted: (text: string) => boolean): number {
  const count = (list: readonly string[] = []): number => list.filter(isWanted).length;
  const { affinitySeconds, isExternalLocal = false, isInternalLocal = false } = view;
  const hasAffinity = affinitySeconds !== undefined;
  const cluster = count(view.clusterIps);
  const { externalIps = [], loadBalancerIps = [] } = view;
  const external = count([...new Set([...externalIps, ...loadBalancerIps])]);
  const behind = (endpoints: number): number => 1 + (hasAffinity ? 0 : endpoints);
  const ofPort = (port: ServicePortView): number => {
    const anywhere = count(port.endpoints);
    const local = count(port.localEndpoints);
    const isShared = (external - 1) * anywhere > limits.chainElements;
    const isLookedUp = !hasAffinity && !isShared;
    const hasClusterIp = cluster > 0;
    const hasNodePort = hasClusterIp && port.nodePort !== undefined;
    const isOutside = external > 0 || hasNodePort;
    const lists = { anywhere, local, hasClusterIp, isOutside, isExternalLocal, isInternalLocal };
    const hasChain = isShared || hasNodePort || (isOutside && isExternalLocal);
    const chain = hasAffinity ? affinityElementsOf(lists) : hasChain ? chainElementsOf(lists) : 0;
    const inside = cluster * behind(isInternalLocal ? local : anywhere);
    // Cells store these endpoints to know which connections may continue.
    const serving = count(port.servingEndpoints);
    return inside + external * (isLookedUp ? behind(anywhere) : 1) + chain + serving;
  };
  const balancers = count(view.loadBalancerIps);
  const ranges = balancers === 0 ? 0 : count(view.sourceRanges);
  const firewall = ranges === 0 ? 0 : limits.chainElements + ranges + balancers * view.ports.length;
  return view.ports.reduce((sum, port) => sum + ofPort(port), firewall);
}

/** The numbers of endpoints that a port may route to. */
interface EndpointLists {
  /** How many there are in the cluster. */
  readonly anywhere: number;
  /** How many of them are on the node. */
  readonly local: number;
  readonly hasClusterIp: boolean;
  /** Whether the port can be reached at other addresses than the ClusterIPs. */
  readonly isOutside: boolean;
  readonly isExternalLocal: boolean;
  readonly isInternalLocal: boolean;
}

/** The cost of a port's chains, in elements. */
function chainElementsOf({ anywhere, isExternalLocal }: EndpointLists): number {
  const chains = anywhere === 0 ? 0 : isExternalLocal ? 2 : 1;
  return chains * limits.chainElements + anywhere;
}

/**
 * The cost of a port's chains and maps with session affinity, in elements. Each list of endpoints that ClusterIPs, other addresses and
 * NodePorts route to has its own chain and maps. With `externalTrafficPolicy: Local`, one more chain routes external clients to the cell's
 * own pod.
 */
function affinityElementsOf(of: EndpointLists): number {
  const { anywhere, local, hasClusterIp, isOutside, isExternalLocal, isInternalLocal } = of;
  const led = isOutside || (hasClusterIp && !isInternalLocal) ? anywhere : 0;
  const ledLocally = hasClusterIp && isInternalLocal ? local : 0;
  const lists = [led, ledLocally].filter((count) => count > 0);
  const ownChain = isOutside && isExternalLocal && anywhere > 0 ? limits.chainElements : 0;
  return lists.reduce((sum, count) => sum + affinityChain + count * affinityElements, ownChain);
}
