import type * as gen from "../gen/kubernetes.gen.ts";
import type { StoredMeta } from "../index.ts";

export type {
  Endpoint,
  LabelSelector,
  LabelSelectorRequirement,
  NetworkPolicyEgressRule,
  NetworkPolicyIngressRule,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "../gen/kubernetes.gen.ts";

/** A Service that was read from an API server. */
export interface StoredService extends gen.Service {
  readonly metadata: StoredMeta;
}

/** A part of the endpoints of a Service, as it was read from an API server. */
export interface EndpointSlice extends Omit<gen.EndpointSlice, "endpoints"> {
  readonly metadata: StoredMeta;
  /** The API server writes null for an empty list. */
  readonly endpoints: readonly gen.Endpoint[] | null;
}

/** A network policy that was read from an API server. */
export interface NetworkPolicy extends gen.NetworkPolicy {
  readonly metadata: StoredMeta;
}

/** A namespace that was read from an API server. */
export interface Namespace extends gen.Namespace {
  readonly metadata: gen.ObjectMeta & { readonly name: string };
}
