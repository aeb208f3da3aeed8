import type { Option } from "@kip/base";
import { newest, pinned } from "@kip/control-plane";

/** Options that `kip up`, `kip down` and `kip status` share. */
export const commonOptions: readonly Option[] = [
  {
    flag: "state-dir",
    type: "string",
    env: "KIP_STATE_DIR",
    fallback: "/var/lib/kip",
    help: "state of the local cluster",
  },
  {
    flag: "cache-dir",
    type: "string",
    env: "KIP_CACHE_DIR",
    fallback: "/var/cache/kip",
    help: "binaries and images, kept between clusters",
  },
  {
    flag: "kubeconfig",
    type: "string",
    env: "KIP_USER_KUBECONFIG",
    help: "kubeconfig that gets the context kip-local; default ~/.kube/config",
  },
  {
    flag: "namespace-name",
    type: "string",
    fallback: "kip",
    help: "network namespace of the cells",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];

/** Options of `kip up`. */
export const upOptions: readonly Option[] = [
  ...commonOptions,
  {
    flag: "cloud",
    type: "string",
    fallback: "local",
    help: "local, or ec2-local: kip uses its driver for AWS, and each instance of an imitated EC2 is a machine of this computer",
  },
  {
    flag: "kubernetes",
    type: "string",
    env: "KIP_KUBERNETES_VERSION",
    fallback: pinned.kubernetes,
    help: `version of Kubernetes: ${pinned.kubernetes}, or newest (${newest.kubernetes})`,
  },
  {
    flag: "binaries-dir",
    type: "string",
    env: "KIP_BINARIES_DIR",
    help: "directory with kube-apiserver, kube-controller-manager, kube-scheduler, etcd and kubectl; may have coredns, too",
  },
  {
    flag: "prepare",
    type: "boolean",
    help: "obtain binaries and images, and start nothing",
  },
  {
    flag: "refresh-image",
    type: "boolean",
    help: "make the cells' operating system again, with Debian's security updates",
  },
  { flag: "port", type: "string", fallback: "6443", help: "port of the API server" },
  {
    flag: "registry-port",
    type: "string",
    fallback: "5000",
    help: "port of the local registry: at localhost to push, on the cells' network to pull",
  },
  {
    flag: "network-range",
    type: "string",
    fallback: "198.18.0.0/15",
    help: "addresses of cells and pods: a network of IPv4, and perhaps one of IPv6 behind a comma",
  },
  {
    flag: "service-range",
    type: "string",
    fallback: "10.96.0.0/16",
    help: "addresses of Services, of the same families; this computer must have no other route there",
  },
  {
    flag: "resolver",
    type: "list",
    help: "name server that pods ask for names outside the cluster, ADDRESS or ADDRESS:PORT; default: as this computer does",
  },
  {
    flag: "host-port",
    type: "list",
    help: "TCP port of this computer that pods reach, besides those of the cluster; may be repeated",
  },
  {
    flag: "nodeport-address",
    type: "list",
    help: "address of this computer at which NodePorts answer besides the one in the range of cells, 0.0.0.0 for all; default: 127.0.0.1; may be repeated",
  },
  {
    flag: "feature-gates",
    type: "string",
    help: "feature gates of Kubernetes' programs, NAME=true with commas between them; pods may use the fields that they open",
  },
  {
    flag: "runtime-config",
    type: "string",
    help: "versions of the API that are served or not, as of kube-apiserver",
  },
  {
    flag: "audit-log",
    type: "string",
    help: "file to which the API server appends what kip asks of it, without bodies",
  },
  {
    flag: "act-as-node",
    type: "boolean",
    fallback: "false",
    help: "kip has the rights of the manifests in deploy/ alone: it serves its pods as its virtual node",
  },
  {
    flag: "templates",
    type: "boolean",
    fallback: "true",
    help: "false: boot each cell instead of copying one that has booted",
  },
  {
    flag: "settings",
    type: "string",
    env: "KIP_SETTINGS",
    help: "YAML file with sections of provider.yaml: registries, images, kubelet, and of cells extendedResources and standbyCells",
  },
  { flag: "node-name", type: "string", fallback: "kip", help: "name of the virtual node" },
];

/** Options of `kip down`. */
export const downOptions: readonly Option[] = [
  ...commonOptions,
  { flag: "purge", type: "boolean", help: "remove the cache as well" },
];
