import type * as gen from "./gen/kubernetes.gen.ts";

export type {
  CertificateSigningRequest,
  ConfigMap,
  Container,
  ContainerState,
  ContainerStatus,
  EnvVar,
  FileKeySelector,
  EphemeralContainer,
  Event,
  Lease,
  ListMeta,
  Node,
  NodeAddress,
  NodeCondition,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  NodeStatus,
  ObjectMeta,
  OwnerReference,
  PodCondition,
  PodSpec,
  PodStatus,
  Probe,
  Secret,
  Status,
  Volume,
  VolumeMount,
  VolumeProjection,
} from "./gen/kubernetes.gen.ts";

/** What the metadata of every object that an API server has stored contains. */
export interface Identity {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** Metadata of a namespaced object that an API server has stored: it always has these fields. */
export interface StoredMeta extends Identity, Omit<gen.ObjectMeta, keyof Identity> {
  readonly namespace: string;
}

/** A Service that was read from an API server. */
export interface Service extends gen.Service {
  readonly metadata: StoredMeta;
}

/** A pod that was read from an API server. */
export interface Pod extends gen.Pod {
  readonly metadata: StoredMeta;
  readonly spec: gen.PodSpec;
}
