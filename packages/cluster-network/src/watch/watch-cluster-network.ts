import type { Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import type { Clock, Logger } from "@kip/base";
import {
  createInformer,
  paths,
  type ApiClient,
  type InformerEvent,
  type KubeObject,
} from "@kip/k8s-client";
import type { NetworkViews } from "../views/network-views.ts";

/** Options of {@link watchClusterNetwork}. */
export interface WatchClusterNetworkOptions {
  readonly client: ApiClient;
  readonly views: NetworkViews;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Objects of other proxies and of headless Services are not sent at all, as to kube-proxy. */
const proxied = {
  labelSelector: "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless",
} as const;

/**
 * Keeps the views up to date with the cluster, by one watch for each kind.
 *
 * @returns resolves when all kinds are known: before, no cell must be given a policy
 */
export async function watchClusterNetwork(options: WatchClusterNetworkOptions): Promise<void> {
  const { views } = options;
  const watch = async <T>(
    path: string,
    take: (object: T & KubeObject, isGone: boolean) => void,
    more: {
      readonly query?: { readonly labelSelector: string };
      transform?: (object: T & KubeObject) => T & KubeObject;
    } = {},
  ): Promise<void> => {
    const { client, clock, logger, signal } = options;
    const onEvent = ({ type, object }: InformerEvent<T & KubeObject>): void =>
      take(object, type === "deleted");
    await createInformer<T>({ client, path, clock, logger, signal, onEvent, ...more }).synced;
  };
  await Promise.all([
    watch<StoredService>(paths.services(), (o, gone) => views.setService(o, gone), {
      query: proxied,
    }),
    watch<EndpointSlice>(paths.endpointSlices(), (o, gone) => views.setSlice(o, gone), {
      query: proxied,
    }),
    watch<Namespace>(paths.namespaces(), (o, gone) => views.setNamespace(o, gone)),
    watch<NetworkPolicy>(paths.networkPolicies(), (o, gone) => views.setPolicy(o, gone)),
    watch<Pod>(paths.pods(), (o, gone) => views.setPod(o, gone), { transform: withoutUnused }),
  ]);
}

/** Pods of the whole cluster are kept: only what policies look at. */
function withoutUnused({ metadata, spec, status }: Pod): Pod {
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
    },
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(status?.podIP !== undefined && { podIP: status.podIP }),
      ...(status?.podIPs && { podIPs: status.podIPs }),
    },
  };
}
