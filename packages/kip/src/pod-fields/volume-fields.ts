import {
  differs,
  refused,
  works,
  type FieldDecision,
  type FieldDecisions,
} from "./field-decision.ts";
import {
  apiSources,
  namespacesAndMounts,
  diskLimits,
  imageVolumes,
  inside,
  realCell,
  resolved,
  volumeMapping,
} from "./tests.ts";

const files = {
  all: `${resolved.files}: shows all keys of a ConfigMap, sorted, with the default mode`,
  chosen: `${resolved.files}: shows the chosen keys of a Secret under their paths, with their modes`,
  optional: `${resolved.files}: leaves out optional objects and keys`,
  downward: `${resolved.files}: shows fields and resources of the pod`,
  projected: `${resolved.files}: combines several sources in a projected volume, with a token that expires`,
  credentials: `${resolved.files}: shows key and certificates of a pod together, or each for itself`,
  bundles: `${resolved.bundles}: gives the anchors of a bundle by name, and of all that a signer and labels select, each once`,
  noBundle: `${resolved.bundles}: says what is missing in the kubelet's words, and leaves it out where it is optional`,
  certificate: `${resolved.certificates}: asks for a certificate once, and gives key and chain when it is issued`,
  keys: `${resolved.certificates}: refuses another type`,
} as const;

const instead =
  "use emptyDir, hostPath, configMap, secret, downwardAPI, image or projected volumes";

/** Refused, like a volume type of a later Kubernetes. */
export const otherVolume = refused(`cells do not have volumes of this kind; ${instead}`);
const claim = refused(`PersistentVolumeClaims are not supported yet; ${instead}`);
const otherVolumes: Readonly<Record<string, FieldDecision>> = Object.fromEntries(
  [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
  ].map((kind) => [kind, otherVolume]),
);

/** Fields of volumes and of their mounts. */
export const volumeFields: Readonly<Record<string, FieldDecisions>> = {
  Volume: {
    ...otherVolumes,
    configMap: works(inside, "ConfigMapVolumeSource"),
    downwardAPI: works(inside, "DownwardAPIVolumeSource"),
    emptyDir: works(volumeMapping, "EmptyDirVolumeSource"),
    ephemeral: claim,
    gitRepo: refused(
      "cells do not have volumes of this kind; let an init container clone into an emptyDir volume",
    ),
    hostPath: works(inside, "HostPathVolumeSource"),
    image: works(imageVolumes, "ImageVolumeSource"),
    name: works(volumeMapping),
    persistentVolumeClaim: claim,
    projected: works(inside, "ProjectedVolumeSource"),
    secret: works(inside, "SecretVolumeSource"),
  },
  ConfigMapVolumeSource: {
    defaultMode: works(inside),
    items: works(files.chosen, "KeyToPath"),
    name: works(inside),
    optional: works(files.optional),
  },
  SecretVolumeSource: {
    defaultMode: works(inside),
    items: works(inside, "KeyToPath"),
    optional: works(files.optional),
    secretName: works(inside),
  },
  KeyToPath: { key: works(inside), mode: works(inside), path: works(inside) },
  DownwardAPIVolumeSource: {
    defaultMode: works(inside),
    items: works(inside, "DownwardAPIVolumeFile"),
  },
  DownwardAPIVolumeFile: {
    fieldRef: works(inside, "ObjectFieldSelector"),
    mode: works(inside),
    path: works(inside),
    resourceFieldRef: works(inside, "ResourceFieldSelector"),
  },
  ProjectedVolumeSource: {
    defaultMode: works(inside),
    sources: works(inside, "VolumeProjection"),
  },
  VolumeProjection: {
    clusterTrustBundle: works(apiSources, "ClusterTrustBundleProjection"),
    configMap: works(inside, "ConfigMapProjection"),
    downwardAPI: works(inside, "DownwardAPIProjection"),
    podCertificate: works(apiSources, "PodCertificateProjection"),
    secret: works(inside, "SecretProjection"),
    serviceAccountToken: works(inside, "ServiceAccountTokenProjection"),
  },
  ...Object.fromEntries(
    ["ConfigMapProjection", "SecretProjection"].map((type) => [
      type,
      {
        items: works(files.chosen, "KeyToPath"),
        name: works(files.projected),
        optional: works(files.optional),
      },
    ]),
  ),
  ClusterTrustBundleProjection: {
    labelSelector: works(files.bundles),
    name: works(apiSources),
    optional: works(files.noBundle),
    path: works(apiSources),
    signerName: works(files.bundles),
  },
  PodCertificateProjection: {
    certificateChainPath: works(files.credentials),
    credentialBundlePath: works(apiSources),
    keyPath: works(files.credentials),
    keyType: works(files.keys),
    maxExpirationSeconds: works(files.certificate),
    signerName: works(apiSources),
  },
  DownwardAPIProjection: { items: works(files.downward, "DownwardAPIVolumeFile") },
  ServiceAccountTokenProjection: {
    audience: works(inside),
    expirationSeconds: works(files.projected),
    path: works(inside),
  },
  EmptyDirVolumeSource: {
    medium: works("e2e/devices.test.ts: reserves huge pages for a pod, and limits what it uses"),
    sizeLimit: works(diskLimits),
  },
  ImageVolumeSource: {
    pullPolicy: works(imageVolumes),
    reference: works(imageVolumes),
  },
  HostPathVolumeSource: {
    path: differs(
      "A path of the pod's own machine: no other pod sees it, and it is gone with the pod.",
    ),
    type: works(
      "packages/cell-agent/src/volumes/host-path.test.ts: takes for each type what is of that kind, also behind a symbolic link, and refuses the rest in the kubelet's words",
    ),
  },
  VolumeMount: {
    mountPath: works(
      "packages/cell-agent/src/container/container-mounts.test.ts: makes paths absolute and writes each in one way",
    ),
    mountPropagation: works(
      "e2e/devices.test.ts: mounts of one container are seen in another that wants to, and in no other",
    ),
    name: works(realCell),
    readOnly: works(realCell),
    recursiveReadOnly: works(namespacesAndMounts),
    subPath: works(realCell),
    subPathExpr: works(inside),
  },
};
