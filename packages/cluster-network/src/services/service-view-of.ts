import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { limits, type Protocol, type ServicePortView, type ServiceView } from "@kip/network-view";
import { writtenAddress, writtenCidr } from "../written-address.ts";
import { SliceReader, type SlicePort, type ViewNode } from "./usable-endpoints.ts";

/** Labels of Services and EndpointSlices that this proxy leaves alone, as kube-proxy does: another's, and headless ones. */
export const unproxiedLabels = [
  "service.kubernetes.io/service-proxy-name",
  "service.kubernetes.io/headless",
] as const;

/** For how long a client keeps its endpoint if the Service does not say: three hours, as in the API. */
const defaultAffinitySeconds = 10_800;

/**
 * Whether nodes lead packets of a Service anywhere: one without a cluster IP, an `ExternalName` and one of another proxy have
 * no rules.
 */
export function isProxied({ metadata, spec }: StoredService): boolean {
  const ip = spec?.clusterIP ?? "";
  const isHeadless = ip === "" || ip === "None";
  const isLabelled = unproxiedLabels.some((label) => metadata.labels?.[label] !== undefined);
  return !isHeadless && spec?.type !== "ExternalName" && !isLabelled;
}

/** Ranges of each IP version without a client. */
const withoutClients = ["0.0.0.0/32", "::/128"] as const;

/** A Service and its endpoints as cells of the node see them. Addresses and endpoints that no rule can be made of are left out. */
export function serviceViewOf(
  service: StoredService,
  slices: Iterable<EndpointSlice>,
  node: ViewNode,
): ServiceView {
  const { spec = {}, status } = service;
  const isExternal = spec.type === "NodePort" || spec.type === "LoadBalancer";
  const ports = (spec.ports ?? []).slice(0, limits.ports);
  const mostAddresses = Math.floor(limits.serviceAddressPorts / Math.max(1, ports.length));
  const external = addresses(spec.externalIPs).slice(0, mostAddresses);
  const isInternalLocal = spec.internalTrafficPolicy === "Local";
  const isExternalLocal =
    (isExternal || external.length > 0) && spec.externalTrafficPolicy === "Local";
  const loadBalancer = addresses(
    (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) =>
      ip !== undefined && ipMode !== "Proxy" ? [ip] : [],
    ),
  ).slice(0, mostAddresses - external.length);
  const hasLocal = isInternalLocal || isExternalLocal;
  const hasAffinity = spec.sessionAffinity === "ClientIP";
  const most = mostEndpoints(ports.length * (hasLocal ? 2 : 1), hasAffinity);
  const reader = new SliceReader(slices, ports.map(slicePort), node);
  return {
    clusterIps: addresses(spec.clusterIPs ?? [spec.clusterIP ?? ""]),
    externalIps: some(external),
    loadBalancerIps: some(loadBalancer),
    sourceRanges: some(sourceRanges(spec.loadBalancerSourceRanges)),
    affinitySeconds: hasAffinity
      ? (spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds)
      : undefined,
    isInternalLocal: isInternalLocal || undefined,
    isExternalLocal: isExternalLocal || undefined,
    ports: ports.map((port) => {
      const { portName, protocol } = slicePort(port);
      const usable = reader.of({ portName, protocol });
      const endpoints = firstOf(usable.cluster(), most);
      const localEndpoints = hasLocal ? firstOf(usable.local(), most) : undefined;
      const others = (): readonly string[] => {
        const isUsed = new Set([...endpoints, ...(localEndpoints ?? [])]);
        // Together no more than the share of a port.
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
        servingEndpoints: protocol === "UDP" ? some(others()) : undefined,
      } satisfies ServicePortView;
    }),
  };
}

function slicePort({ name = "", protocol }: { name?: string; protocol?: string }): SlicePort {
  return { portName: name, protocol: protocolOf(protocol) };
}

/** How many endpoints one list may have. A line that no cell takes would cut off all of them. */
function mostEndpoints(lists: number, hasAffinity: boolean): number {
  const total = hasAffinity ? limits.affinityEndpoints : limits.serviceEndpoints;
  return Math.min(limits.endpoints, Math.floor(total / lists));
}

/** The first ones; of IPv4 and IPv6 half each if there are more, as endpoints of one are of no use to packets of the other. */
function firstOf(list: readonly string[], most: number): readonly string[] {
  if (list.length <= most) return list;
  const [v4, v6] = [list.filter((text) => text[0] !== "["), list.filter((text) => text[0] === "[")];
  const half = Math.ceil(most / 2);
  const kept = v4.slice(0, Math.max(half, most - v6.length));
  return [...kept, ...v6.slice(0, most - kept.length)];
}

/** The protocol of a port; what is absent or unknown is TCP, as the API's default. */
export function protocolOf(text: string | undefined): Protocol {
  return text === "UDP" || text === "SCTP" ? text : "TCP";
}

function addresses(list: readonly string[] = []): readonly string[] {
  const valid = list.flatMap((text) => writtenAddress(text) ?? []);
  return [...new Set(valid)].sort().slice(0, limits.addresses);
}

/**
 * The ranges of a load balancer's clients. It is open to all of an IP version that has none, so what is left out has stand-ins. Kube-proxy
 * skips ranges that it cannot read; the API server takes none of those.
 */
function sourceRanges(list: readonly string[] = []): readonly string[] {
  const ranges = list.flatMap((text) => writtenCidr(text.trim())?.text ?? withoutClients);
  if (ranges.length <= limits.addresses) return ranges;
  return [...ranges.slice(0, limits.addresses - withoutClients.length), ...withoutClients];
}

function some(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list;
}
