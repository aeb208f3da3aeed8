import { isIP } from "node:net";
import { OptionError, type Option, type OptionValues } from "@kip/base";
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
  ...nodeOptions({
    certificate: "self-signed, also if the file is missing",
    nodeIp:
      "InternalIP of the node, or one of each family with a comma; the API server must reach the first",
  }),
];

/** The addresses of `--node-ip`: one, or one of each family, as a kubelet's. @throws {OptionError} `OPTION_INVALID` */
export function nodeIpsOf(options: Pick<OptionValues, "required">): readonly string[] {
  const text = options.required("node-ip");
  const addresses = text.split(",").map((each) => each.trim());
  const kinds = new Set(addresses.map(isIP));
  if (!kinds.has(0) && kinds.size === addresses.length) return addresses;
  throw new OptionError(
    "OPTION_INVALID",
    `Cannot use --node-ip ${text}: it is not an address, or one of each family`,
    { remedy: "Write it like 192.0.2.1 or 192.0.2.1,2001:db8::1" },
  );
}
