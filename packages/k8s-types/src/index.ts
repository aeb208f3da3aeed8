export type {
  Container,
  ContainerState,
  ContainerStatus,
  EnvVar,
  EphemeralContainer,
  Node,
  NodeCondition,
  NodeStatus,
  Pod,
  PodCondition,
  PodSpec,
  PodStatus,
  Probe,
  ConfigMap,
  Secret,
  Service,
  Volume,
  VolumeMount,
  Event,
} from "kubernetes-types/core/v1.d.ts";
export type { CertificateSigningRequest } from "kubernetes-types/certificates/v1.d.ts";
export type { Lease } from "kubernetes-types/coordination/v1.d.ts";
export type { ListMeta, ObjectMeta, OwnerReference, Status } from "kubernetes-types/meta/v1.d.ts";
