import type { Node, Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import { untilAborted, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  paths,
  type ApiClient,
  type InformerOptions,
  type KubeObject,
} from "@kip/k8s-client";
import { otherProxyLabel } from "../services/service-view-of.ts";
import { headlessLabel } from "../services/usable-endpoints.ts";
import type { NetworkViews } from "../views/network-views.ts";
import { PolicySources } from "./policy-sources.ts";
import { TierSources } from "./tier-sources.ts";

/** Options of {@link watchClusterNetwork}. */
export interface WatchClusterNetworkOptions {
  readonly client: ApiClient;
  readonly views: NetworkViews;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Selectors for the API server. As with kube-proxy, they exclude Services of other proxies and slices of headless Services. */
const proxied = {
  services: { labelSelector: `!${otherProxyLabel}` },
  slices: { labelSelector: `!${headlessLabel}` },
} as const;

/** A watch of the cluster's network. */
export interface ClusterNetworkWatch {
  /**
   * Resolves when everything that views of cells depend on is known. Before that, no cell may get a view.
   *
   * @throws the signal's reason
   */
  synced(signal: AbortSignal): Promise<void>;
}

/**
 * Keeps the views up to date with the cluster, with one watch for each kind. Namespaces and pods are only watched while there is a policy,
 * and nodes only while there is an administrators' policy.
 */
export function watchClusterNetwork(options: WatchClusterNetworkOptions): ClusterNetworkWatch {
  const { views } = options;
  const policies = new PolicySources({
    begin: async (signal) => {
      const ofPolicies = { ...options, signal: AbortSignal.any([signal, options.signal]) };
      await Promise.all([
        watch<Namespace>(ofPolicies, paths.namespaces(), {
          onEvent: ({ type, object }) => views.setNamespace(object, type === "deleted"),
        }),
        watch<Pod>(ofPolicies, paths.pods(), {
          onEvent: ({ type, object }) => views.setPod(object, type === "deleted"),
          transform: usedFieldsOnly,
        }),
      ]);
    },
    forget: () => views.forgetPods(),
  });
  const nodes = new PolicySources({
    begin: async (signal) => {
      const ofTiers = { ...options, signal: AbortSignal.any([signal, options.signal]) };
      await watch<Node>(ofTiers, paths.nodes(), {
        onEvent: ({ type, object }) => views.setNode(object, type === "deleted"),
        transform: addressesOnly,
      });
    },
    forget: () => views.forgetNodes(),
  });
  const tiers = new TierSources({
    ...options,
    onPolicy: (type, kind, object) =>
      nodes.change(type, () =>
        policies.change(type, () => views.setTierPolicy(kind, object, type === "deleted")),
      ),
  });
  const always = Promise.all([
    watch<StoredService>(options, paths.services(), {
      query: proxied.services,
      onEvent: ({ type, object }) => views.setService(object, type === "deleted"),
    }),
    watch<EndpointSlice>(options, paths.endpointSlices(), {
      query: proxied.slices,
      onEvent: ({ type, object }) => views.setSlice(object, type === "deleted"),
    }),
    watch<NetworkPolicy>(options, paths.networkPolicies(), {
      onEvent: ({ type, object }) =>
        policies.change(type, () => views.setPolicy(object, type === "deleted")),
    }),
  ]);
  always.catch(() => {}); // it was ended before
  // Nothing waits for this watch. Until the node is registered, the zone is the one that kip will register it with.
  void watch<Node>(options, paths.nodes(), {
    query: { fieldSelector: `metadata.name=${views.nodeName}` },
    onEvent: ({ type, object }) => {
      if (type !== "deleted") views.setOwnNode(object);
    },
    transform: labelsOnly,
  }).catch(() => {});
  return {
    synced: async (signal) => {
      await untilAborted(always, signal);
      await tiers.synced(signal);
      await untilAborted(nodes.synced, signal);
      await untilAborted(policies.synced, signal);
      await views.settled(signal);
    },
  };
}

async function watch<T>(
  { client, clock, logger, signal }: WatchClusterNetworkOptions,
  path: string,
  more: Pick<InformerOptions<T & KubeObject>, "query" | "onEvent" | "transform">,
): Promise<void> {
  await createInformer<T>({ client, path, clock, logger, signal, ...more }).synced;
}

function labelsOnly({ metadata }: Node & KubeObject): Node & KubeObject {
  return { metadata };
}

/** Keeps only addresses and labels of a node, because nodes change often. */
function addressesOnly({ metadata, status }: Node & KubeObject): Node & KubeObject {
  return { metadata, status: { addresses: status?.addresses ?? [] } };
}

/** Keeps only the fields of a pod that policies use, because the pods of the whole cluster are stored. */
function usedFieldsOnly({ metadata, spec, status }: Pod): Pod {
  const { namespace, name, uid, resourceVersion, labels } = metadata;
  const ports = (list: Pod["spec"]["containers"] = []): Pod["spec"]["containers"] =>
    list.flatMap((c) =>
      c.ports ? [{ name: c.name, ports: c.ports, restartPolicy: c.restartPolicy ?? "" }] : [],
    );
  return {
    metadata: { namespace, name, uid, resourceVersion, ...(labels && { labels }) },
    spec: {
      containers: ports(spec.containers),
      initContainers: ports(spec.initContainers),
      ...(spec.hostNetwork === true && { hostNetwork: true }),
      ...(spec.nodeName !== undefined && { nodeName: spec.nodeName }),
    },
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(status?.podIP !== undefined && { podIP: status.podIP }),
      ...(status?.podIPs && { podIPs: status.podIPs }),
      ...(status?.hostIP !== undefined && { hostIP: status.hostIP }),
      ...(status?.hostIPs && { hostIPs: status.hostIPs }),
    },
  };
}
