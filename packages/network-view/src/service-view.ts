import { decode, type Decoder } from "@kip/base";
import { address, cidr, endpoint, name, port, protocol, type Protocol } from "./decoders.ts";
import { limits } from "./limits.ts";

const { between, boolean, integer, list, object, optional } = decode;

/** One port of a Service, and where its packets go. */
export interface ServicePortView {
  /** Empty if the Service has one port without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** Port on addresses of nodes. */
  readonly nodePort?: number | undefined;
  /** Usable endpoints of both families anywhere, see `endpointText`; sorted. */
  readonly endpoints: readonly string[];
  /** Those on the virtual node. Present if a traffic policy of the Service is `Local`. */
  readonly localEndpoints?: readonly string[] | undefined;
  /** Of UDP: endpoints that are in neither list and still serve. Clients that use them already go on. @default none */
  readonly servingEndpoints?: readonly string[] | undefined;
}

/** A Service as kube-proxy would see it. Addresses of both families are in the same lists. */
export interface ServiceView {
  readonly clusterIps: readonly string[];
  readonly externalIps?: readonly string[] | undefined;
  /** Addresses of its load balancer that its packets still carry when they reach a node. */
  readonly loadBalancerIps?: readonly string[] | undefined;
  /** CIDRs that may use `loadBalancerIps`. @default all */
  readonly sourceRanges?: readonly string[] | undefined;
  /** For how long a client that made no connection keeps its endpoint, seconds, 1 to 86400. @default no affinity */
  readonly affinitySeconds?: number | undefined;
  /** `internalTrafficPolicy: Local`: cluster IPs lead to `localEndpoints`. @default false */
  readonly isInternalLocal?: boolean | undefined;
  /** `externalTrafficPolicy: Local`. @default false */
  readonly isExternalLocal?: boolean | undefined;
  /** Of `externalTrafficPolicy: Local` with a load balancer. */
  readonly healthCheck?: HealthCheckView | undefined;
  readonly ports: readonly ServicePortView[];
}

/** By what a load balancer finds out whether a node has endpoints of a Service. */
export interface HealthCheckView {
  /** `healthCheckNodePort`. */
  readonly port: number;
  /** How many endpoints on the virtual node are ready. One with an address of each IP version counts once. */
  readonly localReady: number;
}

const endpoints = list(endpoint, { max: limits.endpoints });
const addresses = list(address, { max: limits.addresses });

/** Decodes a {@link ServiceView}. */
export const decodeServiceView: Decoder<ServiceView> = object({
  clusterIps: addresses,
  externalIps: optional(addresses),
  loadBalancerIps: optional(addresses),
  sourceRanges: optional(list(cidr, { max: limits.addresses })),
  affinitySeconds: optional(between(integer, 1, 86_400)),
  isInternalLocal: optional(boolean),
  isExternalLocal: optional(boolean),
  healthCheck: optional(object({ port, localReady: between(integer, 0, 1_000_000) })),
  ports: list(
    object({
      name,
      protocol,
      port,
      nodePort: optional(port),
      endpoints,
      localEndpoints: optional(endpoints),
      servingEndpoints: optional(endpoints),
    }),
    { max: limits.ports },
  ),
});
