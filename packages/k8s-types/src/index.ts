import type * as gen from "./gen/kubernetes.gen.ts";

export type {
  CertificateSigningRequest,
  ConfigMap,
  Container,
  ContainerState,
  ContainerStatus,
  EnvVar,
  EphemeralContainer,
  Event,
  Lease,
  ListMeta,
  Node,
  NodeCondition,
  NodeStatus,
  ObjectMeta,
  OwnerReference,
  PodCondition,
  PodSpec,
  PodStatus,
  Probe,
  Secret,
  Service,
  Status,
  Volume,
  VolumeMount,
} from "./gen/kubernetes.gen.ts";

/** Metadata of a namespaced object that an API server has stored: it always has these fields. */
export interface StoredMeta extends gen.ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
}

/** A pod that was read from an API server. */
export interface Pod extends gen.Pod {
  readonly metadata: StoredMeta;
  readonly spec: gen.PodSpec;
}
