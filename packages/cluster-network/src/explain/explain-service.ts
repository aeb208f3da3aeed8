import type { Pod } from "@kip/k8s-types";
import type { StoredService } from "@kip/k8s-types/network";
import {
  ipFamily,
  parseEndpoint,
  type IpFamily,
  type Protocol,
  type ServicePortView,
  type ServiceView,
} from "@kip/network-view";
import { writtenAddress } from "../written-address.ts";
import { isProxied, protocolOf } from "../services/service-view-of.ts";
import { addressesOf, podAt, type KnownCluster } from "./cluster-objects.ts";
import { explainPolicies } from "./explain-policies.ts";
import { after, finding, together, type Finding } from "./finding.ts";
import { isInRange } from "./matching-rule.ts";
import { whyNoEndpoints } from "./why-no-endpoints.ts";

/** A connection to a Service. */
export interface ServiceAttempt {
  readonly source: Pod;
  readonly key: string;
  /** @default every port of the Service */
  readonly port?: number | undefined;
  /** @default every protocol of the port */
  readonly protocol?: Protocol | undefined;
  /** The destination address. @default each ClusterIP in a family that the pod has */
  readonly address?: string | undefined;
  /** Whether the port is the Service's NodePort. @default false */
  readonly isNodePort?: boolean | undefined;
}

/** Explains a connection to a Service: which endpoints can get it, and whether policies allow that. */
export function explainService(cluster: KnownCluster, attempt: ServiceAttempt): Finding {
  const { key } = attempt;
  const service = cluster.index.service(key);
  if (!service) return finding("absent", `There is no Service ${key}`);
  if (service.spec?.type === "ExternalName") return externalName(key, service);
  if (["None", "", undefined].includes(service.spec?.clusterIP))
    return headless(cluster, service, attempt);
  if (cluster.index.budget.isRefused(key)) return withoutRoom(cluster, service, attempt);
  const view = cluster.index.view(key);
  if (!view || !isProxied(service))
    return finding(
      "unknown",
      `Service ${key} is left to another proxy by its label service.kubernetes.io/service-proxy-name: cells have no rules for it`,
    );
  const ports = portsOf(view, attempt);
  if (ports.length === 0) return withoutPort(view, attempt);
  const addresses =
    attempt.address === undefined ? ownClusterIps(view, attempt) : [attempt.address];
  if (addresses.length === 0)
    return finding("dropped", `Service ${key} has no address of a family that the pod has`);
  const found = ports.flatMap((port) =>
    addresses.map((address) => atPort(cluster, { ...attempt, view, port, address, service })),
  );
  return together(found);
}

interface PortAttempt extends ServiceAttempt {
  readonly service: StoredService;
  readonly view: ServiceView;
  readonly port: undefined | number;
  readonly address: string;
}

function externalName(key: string, { spec }: StoredService): Finding {
  return finding(
    "unknown",
    `Service ${key} is another name for ${spec?.externalName ?? "nothing"} (ExternalName): DNS answers with that name, and no rule leads there. Ask again with an address that it has`,
  );
}

function withoutRoom(
  cluster: KnownCluster,
  { metadata, spec }: StoredService,
  { key, address = spec?.clusterIP ?? "" }: ServiceAttempt,
): Finding {
  const { namespace } = metadata;
  const isDropped = cluster.objects.serviceRanges.some((range) => isInRange(address, range));
  return finding(
    isDropped ? "dropped" : "unknown",
    `Service ${key} has no rules on cells: the Services of namespace ${namespace} are too large together, and older ones come first. It is one of ${cluster.index.budget.refusedCount(namespace)} that are left out. Fewer addresses, ports or endpoints in the namespace make room`,
    isDropped
      ? `Packets to ${address} are dropped`
      : `Packets to ${address} leave the cell as they are`,
  );
}

/** The Service without rules that has a cluster IP. */
export function refusedServiceAt({ index }: KnownCluster, address: string): string | undefined {
  for (const key of index.keys()) {
    const { clusterIP = "", clusterIPs = [clusterIP] } = index.service(key)?.spec ?? {};
    if (index.budget.isRefused(key) && clusterIPs.some((ip) => writtenAddress(ip) === address))
      return key;
  }
  return undefined;
}

function portsOf(view: ServiceView, attempt: ServiceAttempt): readonly ServicePortView[] {
  const { port, protocol, isNodePort = false } = attempt;
  return view.ports.filter((each) => {
    const number = isNodePort ? each.nodePort : each.port;
    return (
      (port === undefined || number === port) &&
      (protocol === undefined || each.protocol === protocol)
    );
  });
}

function withoutPort(view: ServiceView, { key, port, protocol }: ServiceAttempt): Finding {
  const known = view.ports.map((each) => `${each.port}/${each.protocol}`).join(", ");
  const wanted = [port ?? "", protocol ?? ""].filter((part) => part !== "").join("/");
  return finding(
    "refused",
    `Service ${key} has no port ${wanted}, only ${known}: connections are refused`,
  );
}

function ownClusterIps(view: ServiceView, { source }: ServiceAttempt): readonly string[] {
  const families = new Set<IpFamily>(addressesOf(source).map(ipFamily));
  return view.clusterIps.filter((address) => families.has(ipFamily(address)));
}

function atPort(
  cluster: KnownCluster,
  attempt: Omit<PortAttempt, "port"> & { readonly port: ServicePortView },
): Finding {
  const { key, view, port, address, source, service } = attempt;
  const isCluster = view.clusterIps.includes(address);
  const isLocal = isCluster && view.isInternalLocal === true;
  const closed = outsideSourceRanges(attempt);
  if (closed) return closed;
  const known = (isLocal ? port.localEndpoints : port.endpoints) ?? [];
  const list = endpointsOf(known, address);
  const where = `Service ${key}, port ${port.port}/${port.protocol}`;
  if (list.length === 0) {
    if (isLocal && endpointsOf(port.endpoints, address).length > 0)
      return finding(
        "dropped",
        `${where} has internalTrafficPolicy Local and no endpoint on node ${source.spec.nodeName ?? ""}: packets are dropped`,
      );
    const reasons =
      known.length > 0 ? [ofOtherFamily(address)] : whyNoEndpoints(cluster, service, port);
    return finding("refused", `${where} (${address}) refuses connections:`, ...reasons);
  }
  const count = list.length === 1 ? "1 endpoint" : `${list.length} endpoints`;
  const lead = `${where} (${address}) leads to ${count}${isLocal ? " on the pod's node" : ""}`;
  const reached = list.map((endpoint) =>
    explainPolicies(cluster, source, { ...endpoint, protocol: port.protocol }),
  );
  return after([lead, ...externalPolicy(attempt)], together(reached));
}

function ofOtherFamily(address: string): string {
  const family = ipFamily(address);
  const other = family === 4 ? 6 : 4;
  return `${address} is an IPv${family} address, and all endpoints that it could lead to are IPv${other} ones`;
}

function endpointsOf(
  list: readonly string[],
  address: string,
): readonly { readonly address: string; readonly port: number }[] {
  const all = list.flatMap((text) => parseEndpoint(text) ?? []);
  return all.filter((endpoint) => endpoint.family === ipFamily(address));
}

function externalPolicy({ view }: { readonly view: ServiceView }): readonly string[] {
  if (view.isExternalLocal !== true) return [];
  return [
    "externalTrafficPolicy is Local: clients outside of the cluster reach only endpoints on the machine that they ask; pods reach all of them",
  ];
}

/** Explains packets that are dropped because the client is outside of the load balancer's source ranges. Undefined if they are not. */
function outsideSourceRanges(attempt: Omit<PortAttempt, "port">): Finding | undefined {
  const { view, address, source, key } = attempt;
  if (view.loadBalancerIps?.includes(address) !== true) return undefined;
  const isSame = (text: string): boolean => text.includes(":") === address.includes(":");
  const ranges = (view.sourceRanges ?? []).filter(isSame);
  const own = addressesOf(source).find(isSame);
  if (ranges.length === 0 || own === undefined) return undefined;
  if (ranges.some((range) => isInRange(own, range))) return undefined;
  return finding(
    "dropped",
    `Service ${key} has loadBalancerSourceRanges ${ranges.join(", ")}, and ${own} is in none of them: packets to ${address} are dropped`,
  );
}

/** Explains a headless Service: DNS returns addresses of pods, and ports are not translated. */
function headless(cluster: KnownCluster, service: StoredService, attempt: ServiceAttempt): Finding {
  const { key, source, port, protocol } = attempt;
  const slices = cluster.index.slices(key);
  const isWanted = (each: { readonly protocol?: string }): boolean =>
    protocol === undefined || protocolOf(each.protocol) === protocol;
  const ports = (service.spec?.ports ?? []).filter(isWanted);
  const families = new Set(addressesOf(source).map(ipFamily));
  const found = slices.flatMap((slice) => {
    const known = (slice.ports ?? [])
      .filter(isWanted)
      .flatMap((each) =>
        each.port === undefined ? [] : { port: each.port, protocol: protocolOf(each.protocol) },
      );
    const named = known.filter((each) => each.port === port);
    const attempts =
      port === undefined
        ? known
        : named.length > 0
          ? named
          : [{ port, protocol: protocol ?? "TCP" }];
    const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    const addresses = ready.flatMap((each) => writtenAddress(each.addresses[0] ?? "") ?? []);
    return addresses
      .filter((address) => families.has(ipFamily(address)))
      .flatMap((address) =>
        attempts.map((each) => explainPolicies(cluster, source, { address, ...each })),
      );
  });
  const lead = `Service ${key} is headless: DNS answers with the addresses of its pods, and ports are not translated`;
  if (found.length === 0)
    return finding("absent", lead, ...whyNoEndpoints(cluster, service, undefined));
  const target = ports.find((each) => each.port === port)?.targetPort;
  const note =
    target === undefined || target === port || port === undefined
      ? []
      : [`Its port ${port} has the target port ${target}, which clients must name themselves`];
  return after([lead, ...note], together(found));
}

/** The Service with an address and port, or with a NodePort at one of these node addresses. */
export function serviceAt(
  { index }: KnownCluster,
  wanted: { readonly address: string; readonly port: number; readonly protocol: Protocol },
  nodeAddresses: readonly string[],
): { readonly key: string; readonly isNodePort: boolean } | undefined {
  const { address, port, protocol } = wanted;
  for (const key of index.keys()) {
    const view = index.view(key);
    if (!view) continue;
    if (view.clusterIps.includes(address)) return { key, isNodePort: false };
    const external = [...(view.externalIps ?? []), ...(view.loadBalancerIps ?? [])];
    const has = (number: (each: ServicePortView) => number | undefined): boolean =>
      view.ports.some((each) => number(each) === port && each.protocol === protocol);
    if (external.includes(address) && has((each) => each.port)) return { key, isNodePort: false };
    const isOfVersion = view.clusterIps.some((each) => ipFamily(each) === ipFamily(address));
    if (isOfVersion && nodeAddresses.includes(address) && has((each) => each.nodePort))
      return { key, isNodePort: true };
  }
  return undefined;
}

/** The pod for a DNS name of a headless Service's member. */
export function memberOf(cluster: KnownCluster, key: string, hostname: string): Pod | undefined {
  const endpoint = cluster.index
    .slices(key)
    .flatMap((slice) => slice.endpoints ?? [])
    .find((each) => each.hostname === hostname);
  return podAt(cluster.objects, writtenAddress(endpoint?.addresses[0] ?? "") ?? "");
}
