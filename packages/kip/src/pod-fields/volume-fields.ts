import {
  differs,
  refused,
  refusedAs,
  works,
  type FieldDecision,
  type FieldDecisions,
} from "./field-decision.ts";
import { containerMapping, realCell, resolved, volumeMapping } from "./tests.ts";

const files = {
  all: `${resolved.files}: shows all keys of a ConfigMap, sorted, with the default mode`,
  chosen: `${resolved.files}: shows the chosen keys of a Secret under their paths, with their modes`,
  optional: `${resolved.files}: leaves out optional objects and keys`,
  downward: `${resolved.files}: shows fields and resources of the pod`,
  projected: `${resolved.files}: combines several sources in a projected volume, with a token that expires`,
} as const;

const otherKind = refusedAs(
  "VolumeUnsupported",
  "The pod waits: use emptyDir, hostPath, configMap, secret, downwardAPI or projected volumes.",
);
const otherSource = refusedAs(
  "FailedMount",
  "The pod waits: this source is not supported by this node.",
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
    "image",
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
    clusterTrustBundle: otherSource,
    configMap: works(files.projected, "ConfigMapProjection"),
    downwardAPI: works(files.projected, "DownwardAPIProjection"),
    podCertificate: otherSource,
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
  DownwardAPIProjection: { items: works(files.downward, "DownwardAPIVolumeFile") },
  ServiceAccountTokenProjection: {
    audience: works(files.projected),
    expirationSeconds: works(files.projected),
    path: works(files.projected),
  },
  EmptyDirVolumeSource: {
    medium: refused(
      "cells do not have huge pages; use Memory, or leave it out",
      (value) => typeof value === "string" && value.startsWith("HugePages"),
    ),
    sizeLimit: differs(
      "Kept for the medium Memory. On the disk, the limit is the size of the cell's disk, which the pod has for itself.",
    ),
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
    mountPropagation: refused(
      "mounts of a container are not seen outside of it; leave it out. HostToContainer is taken: nothing is mounted on a cell after its pod has started",
      (value) => value === "Bidirectional",
    ),
    name: works(realCell),
    readOnly: works(realCell),
    recursiveReadOnly: works(containerMapping.recursive),
    subPath: works(realCell),
    subPathExpr: works(containerMapping.variables),
  },
};
