import type { Endpoint, EndpointSlice } from "@kip/k8s-types/network";
import { endpointText, limits, type Protocol } from "@kip/network-view";
import { writtenAddress } from "../written-address.ts";

/** The node whose view of the cluster is computed. */
export interface ViewNode {
  /** Name of the virtual node. */
  readonly name: string;
  /** Its label {@link zoneLabel}. */
  readonly zone?: string | undefined;
}

/** Label of a node with its zone. As in kube-proxy, no other label is used for hints. */
export const zoneLabel = "topology.kubernetes.io/zone";

/** Label of EndpointSlices of headless Services, for which nodes have no rules. */
export const headlessLabel = "service.kubernetes.io/headless";

/** A port of a Service, as identified in EndpointSlices. */
export interface SlicePort {
  /** Name of the Service's port; empty if it has none. */
  readonly portName: string;
  readonly protocol: Protocol;
}

/** An endpoint with the conditions that matter. Absent conditions have the API's defaults. */
interface KnownEndpoint {
  readonly address: string;
  readonly isReady: boolean;
  readonly isServing: boolean;
  readonly isTerminating: boolean;
  readonly isOnNode: boolean;
  readonly nodeHints: readonly string[];
  readonly zoneHints: readonly string[];
}

type SlicePorts = NonNullable<EndpointSlice["ports"]>;

interface KnownSlice {
  readonly endpoints: readonly KnownEndpoint[];
  /** Numbers of the Service's ports, by name and protocol. */
  readonly numbers: ReadonlyMap<string, readonly number[]>;
}

/** An endpoint of one port. */
interface Candidate extends KnownEndpoint {
  readonly text: string;
}

/**
 * How many endpoints of a Service are read, counted for each port. This is twice the number that cells accept. Users decide how many
 * slices a Service has.
 */
export const maxEndpointsRead = 2 * limits.serviceEndpoints;

/** Finds the endpoints of a Service. Reads its EndpointSlices once for all ports. */
export class SliceReader {
  readonly #node: ViewNode;
  readonly #slices: readonly KnownSlice[];
  /** Slices by port, so that slices of other ports are not searched. */
  readonly #ofPorts = new Map<string, KnownSlice[]>();

  /** @param ports all ports of the Service; others of the slices are left out */
  constructor(slices: Iterable<EndpointSlice>, ports: readonly SlicePort[], node: ViewNode) {
    this.#node = node;
    this.#slices = readSlices(slices, new Set(ports.map(portKey)), node);
    for (const key of ports.map(portKey)) this.#ofPorts.set(key, []);
    for (const slice of this.#slices)
      for (const key of slice.numbers.keys()) this.#ofPorts.get(key)?.push(slice);
  }

  /** Number of ready endpoints on the node, in the IP version that has more. An endpoint with several ports counts once. */
  localReady(): number {
    const known = this.#slices.flatMap(({ endpoints }) => endpoints);
    const isCounted = ({ isReady, isOnNode }: KnownEndpoint): boolean => isReady && isOnNode;
    const addresses = new Set(known.filter(isCounted).map(({ address }) => address));
    const ofIPv6 = [...addresses].filter((address) => address.includes(":")).length;
    return Math.max(ofIPv6, addresses.size - ofIPv6);
  }

  /** Endpoints of a port. */
  of(port: SlicePort): UsableEndpoints {
    const key = portKey(port);
    const candidates: Candidate[] = [];
    for (const { endpoints, numbers } of this.#ofPorts.get(key) ?? [])
      for (const number of numbers.get(key) ?? [])
        for (const endpoint of endpoints)
          candidates.push({ ...endpoint, text: endpointText(endpoint.address, number) });
    return new UsableEndpoints(withoutSucceeded(candidates), this.#node);
  }
}

/**
 * The endpoints of a port, chosen as in kube-proxy: the ready ones or, if there are none, those that still serve while they terminate.
 * Hints are only used if every ready endpoint has one and one of them matches the node. Each result is a sorted list of addresses with
 * ports, as text, without duplicates.
 */
class UsableEndpoints {
  readonly #candidates: readonly Candidate[];
  readonly #node: ViewNode;

  constructor(candidates: readonly Candidate[], node: ViewNode) {
    this.#candidates = candidates;
    this.#node = node;
  }

  /** Endpoints for traffic policy `Cluster`, which uses hints for zones and nodes. */
  cluster(): readonly string[] {
    return texts(
      this.#families().flatMap((list) =>
        readyOrServing(list, (ready) => hinted(ready, this.#node)),
      ),
    );
  }

  /** Endpoints for traffic policy `Local`: those on the node. */
  local(): readonly string[] {
    return texts(
      this.#families().flatMap((list) => {
        const local = list.filter(({ isOnNode }) => isOnNode);
        return readyOrServing(local, (ready) => ready);
      }),
    );
  }

  /** All serving endpoints, ready or not, regardless of traffic policies and hints. */
  serving(): readonly string[] {
    return texts(this.#candidates.filter(({ isServing }) => isServing));
  }

  /** The candidates of each IP version. Kube-proxy also chooses separately for each. */
  #families(): readonly (readonly Candidate[])[] {
    const isIPv6 = ({ address }: Candidate): boolean => address.includes(":");
    return [
      this.#candidates.filter((each) => !isIPv6(each)),
      this.#candidates.filter((each) => isIPv6(each)),
    ];
  }
}

/** Leaves out a terminating endpoint if a new pod already has its address, like kube-proxy since 1.36. */
function withoutSucceeded(candidates: readonly Candidate[]): readonly Candidate[] {
  if (!candidates.some(({ isTerminating }) => isTerminating)) return candidates;
  const running = candidates.filter(({ isTerminating }) => !isTerminating);
  const taken = new Set(running.map(({ text }) => text));
  return candidates.filter(({ isTerminating, text }) => !isTerminating || !taken.has(text));
}

function portKey({ portName, protocol }: SlicePort): string {
  return `${portName}/${protocol}`;
}

function readSlices(
  slices: Iterable<EndpointSlice>,
  wanted: ReadonlySet<string>,
  node: ViewNode,
): readonly KnownSlice[] {
  const ofService = withPorts(slices).flatMap(({ slice, ports }) => {
    const numbers = numbersOf(ports, wanted);
    const endpoints = slice.endpoints ?? [];
    return numbers.size > 0 ? [{ name: slice.metadata.name, endpoints, numbers }] : [];
  });
  const sizeOf = ({ endpoints, numbers }: (typeof ofService)[number]): number =>
    endpoints.length * numbers.size;
  // If not all are read, the choice must not depend on the order in which slices came.
  if (ofService.reduce((sum, slice) => sum + sizeOf(slice), 0) > maxEndpointsRead)
    ofService.sort((a, b) => (a.name < b.name ? -1 : 1));
  let room = maxEndpointsRead;
  return ofService.map(({ endpoints, numbers }) => {
    const read = endpoints.slice(0, Math.floor(room / numbers.size));
    room -= read.length * numbers.size;
    const known = read.flatMap((endpoint) => knownEndpoint(endpoint, node) ?? []);
    return { endpoints: known, numbers };
  });
}

/** Slices with the ports that are read of each. The API server accepts 20,000 per slice, however many ports the Service has. */
function withPorts(
  slices: Iterable<EndpointSlice>,
): readonly { readonly slice: EndpointSlice; readonly ports: SlicePorts }[] {
  const known = [...slices].filter(
    ({ addressType, metadata }) =>
      (addressType === "IPv4" || addressType === "IPv6") &&
      metadata.labels?.[headlessLabel] === undefined,
  );
  const all = known.reduce((sum, { ports }) => sum + (ports?.length ?? 0), 0);
  if (all > maxEndpointsRead) known.sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  let room = maxEndpointsRead;
  return known.map((slice) => {
    const ports = slice.ports?.slice(0, room) ?? [];
    room -= ports.length;
    return { slice, ports };
  });
}

function numbersOf(
  ports: SlicePorts,
  wanted: ReadonlySet<string>,
): ReadonlyMap<string, readonly number[]> {
  const numbers = new Map<string, readonly number[]>();
  for (const { name = "", protocol = "TCP", port } of ports) {
    const key = `${name}/${protocol}`;
    if (port !== undefined && isPort(port) && wanted.has(key))
      numbers.set(key, [...(numbers.get(key) ?? []), port]);
  }
  return numbers;
}

/** The API server accepts any number in a slice. */
function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535;
}

function knownEndpoint(endpoint: Endpoint, node: ViewNode): KnownEndpoint | undefined {
  const address = writtenAddress(endpoint.addresses[0] ?? "");
  if (address === undefined) return undefined;
  const { ready = true, serving = true, terminating = false } = endpoint.conditions ?? {};
  return {
    address,
    isReady: ready,
    isServing: serving,
    isTerminating: terminating,
    isOnNode: endpoint.nodeName === node.name,
    nodeHints: endpoint.hints?.forNodes?.map(({ name }) => name) ?? [],
    zoneHints: endpoint.hints?.forZones?.map(({ name }) => name) ?? [],
  };
}

function readyOrServing(
  list: readonly Candidate[],
  choose: (ready: readonly Candidate[]) => readonly Candidate[],
): readonly Candidate[] {
  const ready = list.filter(({ isReady }) => isReady);
  if (ready.length > 0) return choose(ready);
  return list.filter(({ isServing, isTerminating }) => isServing && isTerminating);
}

/** The endpoints with a hint for the node, otherwise those with one for its zone, otherwise all. */
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
  return list
    .map(({ text }) => text)
    .sort()
    .filter((text, index, all) => text !== all[index - 1]);
}
