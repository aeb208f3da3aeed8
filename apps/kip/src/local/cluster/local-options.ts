import type { Option } from "@kip/base";
import { newest, pinned } from "@kip/control-plane";

/** Options that `kip up`, `kip down` and `kip status` share. */
export const commonOptions: readonly Option[] = [
  {
    flag: "state-dir",
    type: "string",
    env: "KIP_STATE_DIR",
    fallback: "/var/lib/kip",
    help: "folder with the state of the local cluster",
  },
  {
    flag: "cache-dir",
    type: "string",
    env: "KIP_CACHE_DIR",
    fallback: "/var/cache/kip",
    help: "folder for binaries and images, kept between clusters",
  },
  {
    flag: "kubeconfig",
    type: "string",
    env: "KIP_USER_KUBECONFIG",
    help: "kubeconfig file to add the context kip-local to; default ~/.kube/config",
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
    help: "local, or ec2-local: kip uses its AWS driver on an imitation of EC2, whose instances are virtual machines on this computer",
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
    help: "rebuild the operating system of cells with Debian's security updates",
  },
  {
    flag: "architecture",
    type: "list",
    help: "processor that cells may have besides this computer's: arm64, or amd64 on a computer with arm64; emulated in software",
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
    help: "addresses of cells and pods: an IPv4 network, and optionally an IPv6 network after a comma",
  },
  {
    flag: "service-range",
    type: "string",
    fallback: "10.96.0.0/16",
    help: "addresses of Services, of the same families as --network-range; this computer must not have another route to them",
  },
  {
    flag: "resolver",
    type: "list",
    help: "name server for names outside the cluster, ADDRESS or ADDRESS:PORT; default those that this computer uses",
  },
  {
    flag: "host-port",
    type: "list",
    help: "TCP port of this computer that pods may reach, besides those of the cluster",
  },
  {
    flag: "nodeport-address",
    type: "list",
    help: "address of this computer at which NodePorts answer, besides the one in the range of cells; 0.0.0.0 for all; default 127.0.0.1",
  },
  {
    flag: "feature-gates",
    type: "string",
    help: "feature gates of Kubernetes' programs, NAME=true, separated by commas; pods may use the fields that they enable",
  },
  {
    flag: "runtime-config",
    type: "string",
    help: "API versions to enable or disable, as kube-apiserver's flag of this name",
  },
  {
    flag: "audit-log",
    type: "string",
    help: "file to which the API server appends kip's requests, without bodies",
  },
  {
    flag: "act-as-node",
    type: "boolean",
    fallback: "false",
    help: "run kip with the rights of the manifests in deploy/ only; it then serves its pods as its virtual node",
  },
  {
    flag: "templates",
    type: "boolean",
    fallback: "true",
    help: "start cells as copies of one that has booted; false: boot each cell",
  },
  {
    flag: "settings",
    type: "string",
    env: "KIP_SETTINGS",
    help: "YAML file with these sections of provider.yaml: registries, images, kubelet, cells.extendedResources, cells.standbyCells",
  },
  { flag: "node-name", type: "string", fallback: "kip", help: "name of the virtual node" },
];

/** Options of `kip down`. */
export const downOptions: readonly Option[] = [
  ...commonOptions,
  { flag: "purge", type: "boolean", help: "remove the cache as well" },
];
