import type { Option } from "@kip/base";
import { nodeOptions } from "@kip/virtual-kubelet/command";

/** Options of the provider. Names, variables and meaning follow the original Kip and Virtual Kubelet. */
export const providerOptions: readonly Option[] = [
  { flag: "provider-config", type: "string", help: "path of provider.yaml" },
  { flag: "provider", type: "string", hasNoEffect: true, help: "the only provider is kip" },
  {
    flag: "cluster-dns",
    type: "string",
    help: "DNS server for pods; default the service kube-system/kube-dns, if there is one",
  },
  {
    flag: "kubelet-access",
    type: "string",
    env: "KUBELET_ACCESS",
    fallback: "cluster",
    help: "who may use the kubelet API: cluster (certificates and tokens, as RBAC says) or certificate (any of the authority's)",
  },
  { flag: "log-dir", type: "string", fallback: "/var/log/kip", help: "logs of finished pods" },
  ...nodeOptions({ certificate: "self-signed, also if the file is missing" }),
];
