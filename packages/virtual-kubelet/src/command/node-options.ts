import type { Option } from "@kip/base";

/** Texts of `--help` for options whose default depends on the program. */
export interface NodeOptionDefaults {
  /** Default of `--tls-cert-file`. */
  readonly certificate: string;
  /** Default of `--client-ca-file`. */
  readonly clientCa?: string | undefined;
  /** Help of `--node-ip`, for programs that accept an address of each family. @default help for one address */
  readonly nodeIp?: string | undefined;
}

/**
 * The options of all commands that run a node. Their names, variables and meanings are those of Virtual Kubelet and its early
 * releases.
 */
export function nodeOptions({
  certificate,
  clientCa,
  nodeIp = "InternalIP of the node. The API server must reach it",
}: NodeOptionDefaults): readonly Option[] {
  return [
    {
      flag: "nodename",
      type: "string",
      env: ["DEFAULT_NODE_NAME", "DEFAULTNODE_NAME"],
      fallback: "virtual-kubelet",
      help: "name of the node",
    },
    {
      // KUBECONFIG may list several files, so the client reads it.
      flag: "kubeconfig",
      type: "string",
      help: "kubeconfig file. Default: the first existing file of those in KUBECONFIG (a:b), else ~/.kube/config, else the pod's service account",
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
      help: nodeIp,
    },
    ...kubeletOptions({ certificate, clientCa }),
    {
      flag: "log-level",
      type: "string",
      fallback: "info",
      help: "lowest level that is logged: trace, debug, info, warn or error",
    },
    { flag: "help", type: "boolean", help: "show this text" },
  ];
}

function kubeletOptions({ certificate, clientCa }: NodeOptionDefaults): readonly Option[] {
  const authority = "certificate authority of the kubelet API's clients";
  return [
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
      help: `certificate of the kubelet API. Default: ${certificate}`,
    },
    {
      flag: "tls-private-key-file",
      type: "string",
      env: "APISERVER_KEY_LOCATION",
      help: "private key of --tls-cert-file",
    },
    {
      flag: "client-ca-file",
      type: "string",
      env: "APISERVER_CA_CERT_LOCATION",
      help: clientCa === undefined ? authority : `${authority}. Default: ${clientCa}`,
    },
  ];
}
