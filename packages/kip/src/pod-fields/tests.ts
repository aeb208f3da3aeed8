/** Tests that check many fields at once, in the form of decisions: `<file>: <name of the test>`. */

const dispatch = "packages/kip/src/dispatch";
const agent = "packages/cell-agent";
const kubelet = "packages/virtual-kubelet";

export const podMapping = `${dispatch}/desired-pod.test.ts: passes what concerns the whole pod on`;
export const volumeMapping = `${dispatch}/desired-pod.test.ts: turns volumes into files, empty directories and paths of the cell`;
const container = `${dispatch}/desired-container.test.ts`;
export const containerMapping = {
  variables: `${container}: expands variables in command, args and subPathExpr`,
  limits: `${container}: passes limits and requests on, in thousandths and bytes`,
  security: `${container}: prefers the container's security context to the pod's`,
  seccomp:
    "packages/oci-runtime/src/bundle/seccomp-profile.test.ts: allows by capability what the profile names, and denies the rest",
  probes: `${container}: passes all kinds of probes on, with ports by name`,
  grpc: `${container}: passes probes by gRPC on, and a probe's own grace period`,
  hooks: `${container}: passes hooks on; one by tcpSocket has nothing to do, and so fails on the cell`,
  restarts: `${agent}/src/state/plan.test.ts: lets a sidecar go first and waits until it has started`,
} as const;
export const realCell = `${agent}/test/real-pod.int.test.ts: gives a pod its volumes, identity, hooks, sidecar and probes`;
/** Many fields of one pod, as seen inside its container on a real cell. */
export const inside =
  "e2e/pod-fields.test.ts: hold for environment, volumes, users, kernel, names, probes and hooks";
export const grpcProbe =
  "e2e/pod-fields.test.ts: hold for a probe by gRPC, which asks for its service";
export const endMessage =
  "e2e/pod-fields.test.ts: hold for the message of a container's end, from its file or the end of its log";
export const terminal =
  "e2e/pod-fields.test.ts: hold for a terminal, and for an input that ends with its first client";
export const deadline = "e2e/pod-fields.test.ts: hold for the deadline of a pod that runs";
/** Names of the pod, and ephemeral containers. */
export const namesAndDebugging =
  "e2e/kubelet-rules.test.ts: hold for host names, files of ConfigMaps, hooks and debugging containers";
/** Namespaces of the cell, and read-only mounts. */
export const namespacesAndMounts =
  "e2e/kubelet-rules.test.ts: hold for namespaces of the node, read-only mounts and limits that are not set";
export const resize =
  "e2e/resources.test.ts: change in place, with restarts where wanted, and not beyond the cell";
/** Limits of a pod's disk use. */
export const diskLimits =
  "e2e/volumes.test.ts: evicts pods that take more of the disk than they may, and from a full disk";
export const imageVolumes =
  "e2e/volumes.test.ts: mounts images as volumes, and waits for one that is not there";
export const apiSources =
  "e2e/volumes.test.ts: shows trust bundles and certificates of the API in projected volumes";
export const resolved = {
  environment: `${kubelet}/src/environment/container-env.test.ts`,
  files: `${kubelet}/src/volumes/volume-files.test.ts`,
  bundles: `${kubelet}/src/volumes/trust-bundles.test.ts`,
  certificates: `${kubelet}/src/volumes/pod-certificates.test.ts`,
  lists: `${kubelet}/src/pods/resolve-pod.test.ts`,
} as const;
export const nodeRules = {
  admission: "packages/kip/src/admission/admit-pod.test.ts",
  network: `${dispatch}/pod-network-files.test.ts`,
  sizes: "packages/kip/src/selection/pod-resources.test.ts",
} as const;
/** Fields that are behind feature gates in Kubernetes 1.34. */
export const gatedFields =
  "e2e/pod-life.test.ts: has stop signals, restart rules, host names and variables from files";
