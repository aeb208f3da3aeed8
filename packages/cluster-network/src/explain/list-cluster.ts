import { isNotFound, K8sError, paths, type ApiClient } from "@kip/k8s-client";
import type { Event } from "@kip/k8s-types";
import type { TierObject } from "../policies/tier-policy.ts";
import { installedTiers } from "../watch/installed-tiers.ts";
import type { ClusterObjects, Unread } from "./cluster-objects.ts";

/** A kind of listed objects: its name in RBAC, and what an answer does not include without it. */
interface Kind {
  readonly resource: string;
  /** Path of all objects, or of those in one namespace. */
  readonly path: (namespace?: string) => string;
  readonly query?: Readonly<Record<string, string>>;
  readonly lacks: string;
  readonly decides: boolean;
  /** Whether a cluster may not have this kind. */
  readonly isOptional?: boolean;
}

const kinds = {
  services: {
    resource: "services",
    path: (namespace) => paths.services(namespace),
    lacks: "Services are not known, nor whether an address is one's",
    decides: true,
  },
  slices: {
    resource: "endpointslices.discovery.k8s.io",
    path: (namespace) => paths.endpointSlices(namespace),
    lacks: "endpoints of Services are not known",
    decides: true,
  },
  policies: {
    resource: "networkpolicies.networking.k8s.io",
    path: (namespace) => paths.networkPolicies(namespace),
    lacks: "policies are not included",
    decides: true,
  },
  namespaces: {
    resource: "namespaces",
    path: () => paths.namespaces(),
    lacks: "labels of namespaces are not known, which policies may name",
    decides: true,
  },
  pods: {
    resource: "pods",
    path: (namespace) => paths.pods(namespace),
    lacks: "pods are not known, nor which pod has an address",
    decides: true,
  },
  nodes: {
    resource: "nodes",
    path: () => paths.nodes(),
    lacks: "zones, addresses and kinds of nodes are not included",
    decides: false,
  },
  events: {
    resource: "events",
    path: (namespace) => paths.events(namespace),
    query: { fieldSelector: "involvedObject.kind=Pod" },
    lacks: "whether a cell has its rules is not included",
    decides: false,
  },
  serviceCidrs: {
    resource: "servicecidrs.networking.k8s.io",
    path: () => paths.serviceCidrs(),
    lacks: "the range of Services is not known",
    decides: false,
    isOptional: true,
  },
} as const satisfies Readonly<Record<string, Kind>>;

/** Options of {@link listCluster}. */
export interface ListClusterOptions {
  /** Namespaces to list one by one if the user may not list objects of all namespaces. */
  readonly namespaces: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * Lists the objects that an answer is computed from. Records which kinds the user may not list, and leaves them out.
 *
 * @throws {K8sError} on failures other than missing permission
 */
export async function listCluster(
  client: ApiClient,
  options: ListClusterOptions,
): Promise<ClusterObjects> {
  const unread: Unread[] = [];
  const list = async <T>(kind: Kind): Promise<readonly T[]> =>
    await listKind<T>(client, { ...options, kind, unread });
  const [services, slices, policies, namespaces, pods, nodes, events, cidrs] = await Promise.all([
    list<ClusterObjects["services"][number]>(kinds.services),
    list<ClusterObjects["slices"][number]>(kinds.slices),
    list<ClusterObjects["policies"][number]>(kinds.policies),
    list<ClusterObjects["namespaces"][number]>(kinds.namespaces),
    list<ClusterObjects["pods"][number]>(kinds.pods),
    list<ClusterObjects["nodes"][number]>(kinds.nodes),
    list<Event>(kinds.events),
    list<{ readonly spec?: { readonly cidrs?: readonly string[] } }>(kinds.serviceCidrs),
  ]);
  const tiers = await listTiers(client, { ...options, unread });
  const serviceRanges = cidrs.flatMap(({ spec }) => spec?.cidrs ?? []);
  return {
    services,
    slices,
    policies,
    tiers,
    namespaces,
    pods,
    nodes,
    events,
    serviceRanges,
    unread,
  };
}

/** Lists administrators' policies, of the installed kinds. */
async function listTiers(
  client: ApiClient,
  options: ListClusterOptions & { readonly unread: Unread[] },
): Promise<ClusterObjects["tiers"]> {
  const installed = await installedTiers(client, options.signal);
  const lists = await Promise.all(
    installed.map(async ({ kind, resource, path }) => {
      const lacks = "these policies are not included";
      const listed = { resource, path: () => path, lacks, decides: true };
      const found = await listKind<TierObject>(client, { ...options, kind: listed });
      return found.map((object) => [kind, object] as const);
    }),
  );
  return lists.flat();
}

async function listKind<T>(
  client: ApiClient,
  options: ListClusterOptions & { readonly kind: Kind; readonly unread: Unread[] },
): Promise<readonly T[]> {
  const { kind, unread, namespaces } = options;
  const all = await listPath<T>(client, kind.path(), options);
  if (all) return all;
  const isCluster = kind.path("x") === kind.path();
  const parts = isCluster
    ? []
    : await Promise.all(
        namespaces.map(async (name) => await listPath<T>(client, kind.path(name), options)),
      );
  const isPart = parts.length > 0 && parts.every((part) => part !== undefined);
  const where = isPart ? `only those of ${namespaces.join(", ")} could be listed` : "not allowed";
  const { resource, lacks, decides } = kind;
  unread.push({ resource, decides, consequence: `${where}: ${lacks}` });
  return parts.flatMap((part) => part ?? []);
}

/** Lists objects. Undefined if the user may not. */
async function listPath<T>(
  client: ApiClient,
  path: string,
  { kind, signal }: { readonly kind: Kind; readonly signal: AbortSignal },
): Promise<readonly T[] | undefined> {
  try {
    const { items } = await client.list<T>(path, { query: kind.query, signal });
    return items;
  } catch (error) {
    if (K8sError.is(error, "K8S_FORBIDDEN")) return undefined;
    if (kind.isOptional === true && isNotFound(error)) return [];
    throw error;
  }
}
