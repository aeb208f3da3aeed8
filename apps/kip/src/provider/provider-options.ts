import { isIP } from "node:net";
import { OptionError, type Option, type OptionValues } from "@kip/base";
import type { KubeConfig } from "@kip/k8s-client";
import { commandOptions, ownAddress } from "@kip/virtual-kubelet/command";

/** Options of the provider. Names, variables and meanings follow the original Kip and Virtual Kubelet. */
export const providerOptions: readonly Option[] = [
  { flag: "provider-config", type: "string", help: "path of provider.yaml" },
  {
    flag: "provider",
    type: "string",
    fallback: "kip",
    help: "name of the provider. kip is the only one",
  },
  {
    flag: "cluster-dns",
    type: "list",
    help: "address of a DNS server for pods. Default: the Service kube-system/kube-dns, if it exists",
  },
  {
    flag: "kubelet-access",
    type: "string",
    env: "KUBELET_ACCESS",
    fallback: "cluster",
    help: "who may use the kubelet API. cluster: client certificates and tokens, authorised by RBAC. certificate: every client certificate of --client-ca-file",
  },
  {
    flag: "rotate-server-certificates",
    type: "boolean",
    help: "have the cluster sign and renew the kubelet API's certificate. Kip uses a self-signed one until the request is approved. Not with --tls-cert-file",
  },
  {
    flag: "certificate-signer",
    type: "string",
    fallback: "kubernetes.io/kubelet-serving",
    help: "signer that --rotate-server-certificates asks; on EKS, which signs that of kubelets for its own nodes alone, beta.eks.amazonaws.com/app-serving",
  },
  {
    flag: "act-as-node",
    type: "boolean",
    fallback: "false",
    help: "act as the user system:node:<nodename> for everything that concerns the node and its pods, including their Secrets, ConfigMaps and tokens. The API server then allows this only for this node and its pods. Needs the right to impersonate that user and the group system:nodes",
  },
  {
    flag: "leader-elect",
    type: "boolean",
    fallback: "true",
    help: "wait while another kip runs this node. Set it to false only if no other kip does",
  },
  {
    flag: "own-namespace",
    type: "string",
    env: "KIP_NAMESPACE",
    help: "namespace of kip's own Secrets. Default: the namespace of kip's pod, or kip-system outside of a pod",
  },
  {
    flag: "health-addr",
    type: "string",
    fallback: "off",
    help: "address that serves GET /livez and GET /readyz, or off. It answers also while another kip runs the node",
  },
  {
    flag: "log-dir",
    type: "string",
    fallback: "/var/log/kip",
    help: "folder for logs of finished pods, at most 768 MiB",
  },
  {
    flag: "network-agent-secret",
    type: "string",
    hasNoEffect: true,
    help: "kip sends cells the Services and policies that they need. Cells get no token for the cluster",
  },
  {
    flag: "network-agent-kubeconfig",
    type: "string",
    hasNoEffect: true,
    help: "kip sends cells the Services and policies that they need. Cells get no kubeconfig",
  },
  {
    flag: "debug-server",
    type: "boolean",
    hasNoEffect: true,
    help: "cells are objects in the cluster's API. Use kubectl get cells and kubectl describe cell",
  },
  {
    flag: "instance-data-path",
    type: "string",
    help: "for cloud.aws: JSON file with your own instance types and prices (docs/instance-selection.md), read at the start",
  },
  ...commandOptions({
    certificate: "a self-signed one, also if the file is missing",
    clientCa: "the authority that the kubeconfig trusts",
    nodeIp:
      "InternalIP of the node, or one of each IP family, separated by a comma. The API server must reach the first one. Default: the address of this machine towards the internet",
    logFormat: "json",
    metrics: "off",
    systems: "only linux",
  }),
];

/** Environment variables of the original that have no effect here, and their replacements. */
export const uselessVariables: Readonly<Record<string, string>> = {
  MOCK_CLOUD_API:
    "there is no cloud in memory to run on; kip up starts a local one with real machines",
};

/**
 * The addresses of `--node-ip`: one, or one of each IP family, as for a kubelet. Without it, this machine's address, which is
 * found like in the original.
 *
 * @throws {OptionError} `OPTION_INVALID`; `OPTION_MISSING` if the machine has no address
 */
export async function nodeIpsOf(
  options: Pick<OptionValues, "text">,
  findOwn: () => Promise<string | undefined> = ownAddress,
): Promise<readonly string[]> {
  const text = options.text("node-ip") ?? (await findOwn());
  if (text === undefined)
    throw new OptionError("OPTION_MISSING", "Cannot find an address of this machine", {
      remedy: "Give --node-ip or set VKUBELET_POD_IP",
    });
  const addresses = text.split(",").map((each) => each.trim());
  const kinds = new Set(addresses.map(isIP));
  if (!kinds.has(0) && kinds.size === addresses.length) return addresses;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --node-ip ${text}: it is not an address, or one of each family`,
    { remedy: "Write it like 192.0.2.1 or 192.0.2.1,2001:db8::1" },
  );
}

/** The namespace of kip's own Secrets: that of `--own-namespace`, or of kip's pod. Undefined for the default. */
export function ownNamespace(
  options: Pick<OptionValues, "text">,
  { source, namespace }: Pick<KubeConfig, "source" | "namespace">,
): string | undefined {
  return options.text("own-namespace") ?? (source === "in-cluster" ? namespace : undefined);
}

/** The addresses of `--cluster-dns`. Undefined if it is not set. @throws {OptionError} `OPTION_INVALID` */
export function clusterDnsOf(options: Pick<OptionValues, "list">): readonly string[] | undefined {
  const addresses = options.list("cluster-dns").flatMap((text) => text.split(","));
  const wrong = addresses.find((address) => isIP(address) === 0);
  if (wrong === undefined) return addresses.length === 0 ? undefined : addresses;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --cluster-dns ${wrong}: it is not an address`,
    {
      remedy: "Write it like 10.96.0.10, or several with commas",
    },
  );
}
