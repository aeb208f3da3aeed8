import type { Pod } from "@kip/k8s-types";
import type { Endpoint, StoredService } from "@kip/k8s-types/network";
import { ipFamily, parseEndpoint, type ServiceView } from "@kip/network-view";
import { isProxied } from "../services/service-view-of.ts";
import { writtenAddress } from "../written-address.ts";
import { addressesOf, podName, type KnownCluster } from "./cluster-objects.ts";

/** Sentences about the Services that have a pod as endpoint, and whether they route to it. */
export function servicesOf({ index }: KnownCluster, pod: Pod): readonly string[] {
  const own = new Set(addressesOf(pod));
  return index.keysOf(pod.metadata.namespace).flatMap((key) => {
    const endpoints = index
      .slices(key)
      .flatMap((slice) => slice.endpoints ?? [])
      .filter(({ addresses }) => own.has(writtenAddress(addresses[0] ?? "") ?? ""));
    const service = index.service(key);
    if (endpoints.length === 0 || !service) return [];
    const [name, selects] = [podName(pod), `Service ${key} selects ${podName(pod)}`];
    if (index.budget.isRefused(key))
      return `${selects}, but has no rules on cells: the Services of its namespace are too large together`;
    if (isOfOtherProxy(service))
      return `${selects}, but is left to another proxy by its label service.kubernetes.io/service-proxy-name: cells have no rules for it`;
    const view = index.view(key);
    const isReady = endpoints.some(({ conditions }) => conditions?.ready !== false);
    if (view ? leadsTo(view, own) : isReady)
      return `Service ${key} leads to ${name}${isReady ? "" : ", which terminates: no other endpoint is ready"}`;
    return `${selects}, but sends it nothing: ${isReady ? unused : whyUnused(endpoints)}`;
  });
}

const unused =
  "its endpoint has none of the Service's ports and IP versions, or is for other nodes or zones";

function whyUnused(endpoints: readonly Endpoint[]): string {
  return endpoints.some(({ conditions }) => conditions?.terminating === true)
    ? "the endpoint terminates"
    : "the endpoint is not ready";
}

/** Whether another proxy handles a Service. Headless Services have no ClusterIP, and do not count. */
function isOfOtherProxy(service: StoredService): boolean {
  const { clusterIP = "" } = service.spec ?? {};
  return clusterIP !== "" && clusterIP !== "None" && !isProxied(service);
}

function leadsTo({ clusterIps, ports }: ServiceView, own: ReadonlySet<string>): boolean {
  const families = new Set(clusterIps.map(ipFamily));
  return ports
    .flatMap(({ endpoints, localEndpoints = [] }) => [...endpoints, ...localEndpoints])
    .flatMap((text) => parseEndpoint(text) ?? [])
    .some(({ address, family }) => families.has(family) && own.has(address));
}
