import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import {
  ipFamily,
  limits,
  outermost,
  parseCidr,
  textFamily,
  type HealthCheckView,
  type IpFamily,
  type Protocol,
  type ServicePortView,
  type ServiceView,
} from "@kip/network-view";
import { writtenAddress, writtenCidr } from "../written-address.ts";
import { SliceReader, type SlicePort, type ViewNode } from "./usable-endpoints.ts";

/** Label of Services that another proxy handles. */
export const otherProxyLabel = "service.kubernetes.io/service-proxy-name";

/** How many addresses of one kind are read. A Service may contain 100,000 external IPs. */
const maxAddressesRead = 4 * limits.addresses;

/** How many source ranges are read. A Service may contain 130,000. */
const maxRangesRead = 4096;

/** How long a client keeps its endpoint if the Service does not specify it: three hours, the default of the API. */
const defaultAffinitySeconds = 10_800;

/**
 * Whether a Service has rules on nodes. It has none without a ClusterIP, with type `ExternalName`, or if another proxy handles it. As in
 * kube-proxy since 1.36, the label for headless Services only has an effect on EndpointSlices.
 */
export function isProxied({ metadata, spec }: StoredService): boolean {
  const ip = spec?.clusterIP ?? "";
  const isHeadless = ip === "" || ip === "None";
  const isLabelled = metadata.labels?.[otherProxyLabel] !== undefined;
  return !isHeadless && spec?.type !== "ExternalName" && !isLabelled;
}

/** Ranges that contain no client, one for each IP version. */
const withoutClients = ["0.0.0.0/32", "::/128"].flatMap((text) => parseCidr(text) ?? []);

/** A Service and its endpoints from the view of the node's cells. Without addresses and endpoints that cannot be used in rules. */
export function serviceViewOf(
  service: StoredService,
  slices: Iterable<EndpointSlice>,
  node: ViewNode,
): ServiceView {
  const { spec = {}, status } = service;
  const isExternal = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const ports = (spec.ports ?? []).slice(0, limits.ports);
  const maxAddresses = Math.floor(limits.serviceAddressPorts / Math.max(1, ports.length));
  const clusterIps = addresses(spec.clusterIPs ?? [spec.clusterIP ?? ""]);
  // As with kube-proxy, external addresses count only in the IP versions of the ClusterIPs. A load balancer may translate another version itself.
  const families = new Set(clusterIps.map(ipFamily));
  const ofFamilies = (list?: readonly string[]): readonly string[] =>
    addresses(list, (address) => families.has(ipFamily(address)));
  const external = ofFamilies(spec.externalIPs).slice(0, maxAddresses);
  const isInternalLocal = spec.internalTrafficPolicy === "Local";
  const isExternalLocal =
    (isExternal || external.length > 0) && spec.externalTrafficPolicy === "Local";
  const loadBalancer = ofFamilies(
    (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) =>
      ip !== undefined && ipMode !== "Proxy" ? [ip] : [],
    ),
  ).slice(0, maxAddresses - external.length);
  const hasLocal = isInternalLocal || isExternalLocal;
  const hasAffinity = spec.sessionAffinity === "ClientIP";
  const most = maxEndpoints(ports.length * (hasLocal ? 2 : 1), hasAffinity);
  const reader = new SliceReader(slices, ports.map(slicePort), node);
  return {
    clusterIps,
    externalIps: unlessEmpty(external),
    loadBalancerIps: unlessEmpty(loadBalancer),
    sourceRanges: unlessEmpty(sourceRanges(spec.loadBalancerSourceRanges)),
    affinitySeconds: hasAffinity
      ? (spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds)
      : undefined,
    isInternalLocal: isInternalLocal || undefined,
    isExternalLocal: isExternalLocal || undefined,
    healthCheck: isExternalLocal ? healthCheckOf(spec, reader) : undefined,
    ports: ports.map((port) => {
      const { portName, protocol } = slicePort(port);
      const usable = reader.of({ portName, protocol });
      const endpoints = firstOf(usable.cluster(), most);
      const localEndpoints = hasLocal ? firstOf(usable.local(), most) : undefined;
      const others = (): readonly string[] => {
        const isUsed = new Set([...endpoints, ...(localEndpoints ?? [])]);
        // Together with its other endpoints, no more than the limit of a port.
        const serving = usable.serving().filter((text) => !isUsed.has(text));
        return firstOf(serving, most - endpoints.length);
      };
      return {
        name: portName,
        protocol,
        port: port.port,
        nodePort: port.nodePort === 0 ? undefined : port.nodePort,
        endpoints,
        localEndpoints,
        servingEndpoints: protocol === "UDP" ? unlessEmpty(others()) : undefined,
      } satisfies ServicePortView;
    }),
  };
}

/** The `healthCheckNodePort` of a Service of type LoadBalancer. */
function healthCheckOf(
  { type, healthCheckNodePort: port = 0 }: NonNullable<StoredService["spec"]>,
  reader: SliceReader,
): HealthCheckView | undefined {
  if (type !== "LoadBalancer" || port === 0) return undefined;
  return { port, localReady: reader.localReady() };
}

function slicePort({ name = "", protocol }: { name?: string; protocol?: string }): SlicePort {
  return { portName: name, protocol: protocolOf(protocol) };
}

/** Maximum length of each list of endpoints, so that the encoded Service is not longer than cells accept. */
function maxEndpoints(lists: number, hasAffinity: boolean): number {
  const total = hasAffinity ? limits.affinityEndpoints : limits.serviceEndpoints;
  return Math.min(limits.endpoints, Math.floor(total / lists));
}

/** The first `most` endpoints or ranges of a list. If there are more, half of the result is IPv4 and half IPv6, if available. */
function firstOf(list: readonly string[], most: number): readonly string[] {
  if (list.length <= most) return list;
  const ofFamily = (family: IpFamily) => list.filter((text) => textFamily(text) === family);
  const [v4, v6] = [ofFamily(4), ofFamily(6)];
  const half = Math.ceil(most / 2);
  const kept = v4.slice(0, Math.max(half, most - v6.length));
  return [...kept, ...v6.slice(0, most - kept.length)];
}

/** The protocol of a port. TCP if it is absent or unknown, like the API's default. */
export function protocolOf(text: string | undefined): Protocol {
  return text === "UDP" || text === "SCTP" ? text : "TCP";
}

function addresses(
  list: readonly string[] = [],
  isWanted: (address: string) => boolean = () => true,
): readonly string[] {
  const read = list.slice(0, maxAddressesRead);
  const valid = read.flatMap((text) => writtenAddress(text) ?? []).filter(isWanted);
  return [...new Set(valid)].sort().slice(0, limits.addresses);
}

/**
 * The ranges of a load balancer's clients. An IP version without any range is open to all clients. So a range that cannot be read is replaced
 * by ranges without clients. (Kube-proxy skips it, and the API server rejects it.) If there are too many, each IP version keeps some.
 */
function sourceRanges(list: readonly string[] = []): readonly string[] {
  const read = list.slice(0, maxRangesRead);
  const ranges = read.flatMap((text) => writtenCidr(text.trim()) ?? withoutClients);
  // The ranges that were not read may be the only ones of their IP version.
  if (list.length > read.length) ranges.push(...withoutClients);
  const kept = ranges.length > limits.addresses ? outermost(ranges) : ranges;
  return firstOf(
    kept.map(({ text }) => text),
    limits.addresses,
  );
}

function unlessEmpty(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list;
}
