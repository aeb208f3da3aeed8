import type { Option } from "@kip/base";

/** Options of the provider. Names, variables and meaning follow the original Kip and Virtual Kubelet. */
export const providerOptions: readonly Option[] = [
  { flag: "provider-config", type: "string", help: "path of provider.yaml" },
  {
    flag: "provider",
    type: "string",
    fallback: "kip",
    help: "accepted for compatibility; only kip",
  },
  {
    flag: "nodename",
    type: "string",
    env: "DEFAULT_NODE_NAME",
    fallback: "virtual-kubelet",
    help: "name of the virtual node",
  },
  {
    flag: "kubeconfig",
    type: "string",
    help: "kubeconfig; default the first file that exists of those in KUBECONFIG (a:b), or without it ~/.kube/config, else in-cluster",
  },
  {
    flag: "cluster-dns",
    type: "string",
    help: "DNS server for pods; default the service kube-system/kube-dns, if there is one",
  },
  {
    flag: "cluster-domain",
    type: "string",
    fallback: "cluster.local",
    help: "DNS domain of the cluster",
  },
  { flag: "disable-taint", type: "boolean", help: "do not taint the node" },
  {
    flag: "node-ip",
    type: "string",
    env: "VKUBELET_POD_IP",
    help: "InternalIP of the node; must be reachable from the API server",
  },
  {
    flag: "kubelet-port",
    type: "string",
    env: "KUBELET_PORT",
    fallback: "10250",
    help: "port of the kubelet API",
  },
  {
    flag: "tls-cert-file",
    type: "string",
    env: "APISERVER_CERT_LOCATION",
    help: "serving certificate of the kubelet API; self-signed if the file is missing",
  },
  { flag: "tls-private-key-file", type: "string", env: "APISERVER_KEY_LOCATION", help: "its key" },
  {
    flag: "client-ca-file",
    type: "string",
    env: "APISERVER_CA_CERT_LOCATION",
    help: "authority of the client certificates that the kubelet API accepts",
  },
  {
    flag: "kubelet-access",
    type: "string",
    env: "KUBELET_ACCESS",
    fallback: "cluster",
    help: "who may use the kubelet API: cluster (certificates and tokens, as RBAC says) or certificate (any of the authority's)",
  },
  { flag: "log-dir", type: "string", fallback: "/var/log/kip", help: "logs of finished pods" },
  {
    flag: "log-level",
    type: "string",
    fallback: "info",
    help: "trace, debug, info, warn or error",
  },
  { flag: "help", type: "boolean", help: "show this text" },
];
