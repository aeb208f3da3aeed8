import type { Endpoint, EndpointSlice } from "@kip/k8s-types/network";
import { canonicalAddress, endpointText, type Protocol } from "@kip/network-view";

/** The node whose view of the cluster is computed. */
export interface ViewNode {
  /** Name of the virtual node. */
  readonly name: string;
  /** Its label `topology.kubernetes.io/zone`. */
  readonly zone?: string | undefined;
}

/** Endpoints of one port of a Service: address and port as text, sorted, each once. */
export interface UsableEndpoints {
  /** For traffic policy `Cluster`: hints for zones and nodes are taken into account. */
  readonly cluster: readonly string[];
  /** For traffic policy `Local`: those on the node. */
  readonly local: readonly string[];
  /** All that serve, ready or not, whatever policies and hints say. */
  readonly serving: readonly string[];
}

/** An endpoint with the conditions that decide; an absent one means what the API says. */
interface Candidate {
  readonly text: string;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isServingWhileTerminating: boolean;
  readonly isOnNode: boolean;
  readonly nodeHints: readonly string[];
  readonly zoneHints: readonly string[];
}

/**
 * Which endpoints serve a port, as kube-proxy decides: the ready ones, or, if there is none, those that still serve while
 * they terminate. Hints count only if every ready endpoint has one and the node is in one of them.
 *
 * @param portName name of the Service's port; empty if it has none
 */
export function usableEndpoints(
  slices: Iterable<EndpointSlice>,
  { portName, protocol, node }: { portName: string; protocol: Protocol; node: ViewNode },
): UsableEndpoints {
  const candidates: Candidate[] = [];
  for (const slice of slices) {
    if (slice.addressType !== "IPv4" && slice.addressType !== "IPv6") continue;
    for (const { name = "", protocol: has = "TCP", port } of slice.ports ?? [])
      if (name === portName && has === protocol && port !== undefined && isPort(port))
        for (const endpoint of slice.endpoints ?? [])
          addCandidate(candidates, { endpoint, port, node });
  }
  const local = candidates.filter(({ isOnNode }) => isOnNode);
  return {
    cluster: texts(readyOrServing(candidates, (ready) => hinted(ready, node))),
    local: texts(readyOrServing(local, (ready) => ready)),
    serving: texts(candidates.filter(({ isServing }) => isServing)),
  };
}

/** The API server takes any number in a slice. */
function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535;
}

function addCandidate(
  list: Candidate[],
  { endpoint, port, node }: { endpoint: Endpoint; port: number; node: ViewNode },
): void {
  const address = canonicalAddress(endpoint.addresses[0] ?? "");
  if (address === undefined) return;
  const { ready = true, serving = ready, terminating = false } = endpoint.conditions ?? {};
  list.push({
    text: endpointText(address, port),
    isReady: ready,
    isServing: serving,
    isServingWhileTerminating: serving && terminating,
    isOnNode: endpoint.nodeName === node.name,
    nodeHints: endpoint.hints?.forNodes?.map(({ name }) => name) ?? [],
    zoneHints: endpoint.hints?.forZones?.map(({ name }) => name) ?? [],
  });
}

function readyOrServing(
  list: readonly Candidate[],
  choose: (ready: readonly Candidate[]) => readonly Candidate[],
): readonly Candidate[] {
  const ready = list.filter(({ isReady }) => isReady);
  if (ready.length > 0) return choose(ready);
  return list.filter(({ isServingWhileTerminating }) => isServingWhileTerminating);
}

/** Those for the node, else those for its zone, else all. */
function hinted(ready: readonly Candidate[], { name, zone }: ViewNode): readonly Candidate[] {
  if (ready.every(({ nodeHints }) => nodeHints.length > 0)) {
    const forNode = ready.filter(({ nodeHints }) => nodeHints.includes(name));
    if (forNode.length > 0) return forNode;
  }
  if (zone !== undefined && ready.every(({ zoneHints }) => zoneHints.length > 0)) {
    const forZone = ready.filter(({ zoneHints }) => zoneHints.includes(zone));
    if (forZone.length > 0) return forZone;
  }
  return ready;
}

function texts(list: readonly Candidate[]): readonly string[] {
  return [...new Set(list.map(({ text }) => text))].sort();
}
