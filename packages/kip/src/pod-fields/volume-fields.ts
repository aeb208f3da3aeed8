import {
  differs,
  refusedAs,
  works,
  type FieldDecision,
  type FieldDecisions,
} from "./field-decision.ts";
import {
  apiSources,
  containerMapping,
  diskLimits,
  imageVolumes,
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

const otherKind = refusedAs(
  "VolumeUnsupported",
  "The pod waits: use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes.",
);
const otherKinds: Readonly<Record<string, FieldDecision>> = Object.fromEntries(
  [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "ephemeral",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
  ].map((kind) => [kind, otherKind]),
);

/** Fields of volumes and of their mounts. */
export const volumeFields: Readonly<Record<string, FieldDecisions>> = {
  Volume: {
    ...otherKinds,
    configMap: works(files.all, "ConfigMapVolumeSource"),
    downwardAPI: works(files.downward, "DownwardAPIVolumeSource"),
    emptyDir: works(volumeMapping, "EmptyDirVolumeSource"),
    hostPath: works(volumeMapping, "HostPathVolumeSource"),
    image: works(imageVolumes, "ImageVolumeSource"),
    name: works(volumeMapping),
    projected: works(files.projected, "ProjectedVolumeSource"),
    secret: works(files.chosen, "SecretVolumeSource"),
  },
  ConfigMapVolumeSource: {
    defaultMode: works(files.all),
    items: works(files.chosen, "KeyToPath"),
    name: works(files.all),
    optional: works(files.optional),
  },
  SecretVolumeSource: {
    defaultMode: works(files.all),
    items: works(files.chosen, "KeyToPath"),
    optional: works(files.optional),
    secretName: works(files.chosen),
  },
  KeyToPath: { key: works(files.chosen), mode: works(files.chosen), path: works(files.chosen) },
  DownwardAPIVolumeSource: {
    defaultMode: works(files.downward),
    items: works(files.downward, "DownwardAPIVolumeFile"),
  },
  DownwardAPIVolumeFile: {
    fieldRef: works(files.downward, "ObjectFieldSelector"),
    mode: works(files.downward),
    path: works(files.downward),
    resourceFieldRef: works(files.downward, "ResourceFieldSelector"),
  },
  ProjectedVolumeSource: {
    defaultMode: works(files.projected),
    sources: works(files.projected, "VolumeProjection"),
  },
  VolumeProjection: {
    clusterTrustBundle: works(apiSources, "ClusterTrustBundleProjection"),
    configMap: works(files.projected, "ConfigMapProjection"),
    downwardAPI: works(files.projected, "DownwardAPIProjection"),
    podCertificate: works(apiSources, "PodCertificateProjection"),
    secret: works(files.projected, "SecretProjection"),
    serviceAccountToken: works(files.projected, "ServiceAccountTokenProjection"),
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
    audience: works(files.projected),
    expirationSeconds: works(files.projected),
    path: works(files.projected),
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
      "packages/cell-agent/src/volumes/modes.test.ts: checkHostPath() makes what the kubelet makes",
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
    recursiveReadOnly: works(containerMapping.recursive),
    subPath: works(realCell),
    subPathExpr: works(containerMapping.variables),
  },
};
