import type { Option } from "@kip/base";
import { commandOptions as sharedOptions } from "@kip/virtual-kubelet/command";

/** Options of virtual-kubelet. Names, variables and meanings follow the original, including its early releases. */
export const commandOptions: readonly Option[] = [
  {
    flag: "provider",
    type: "string",
    help: "name of a provider (see: virtual-kubelet providers), or of an npm package",
  },
  { flag: "provider-config", type: "string", help: "path of the provider's configuration file" },
  { flag: "standby", type: "boolean", help: "replicas of this node stand by for each other" },
  ...sharedOptions({
    certificate: "asked of the cluster (CSR), self-signed meanwhile",
    logFormat: "text",
    metrics: ":10255",
  }),
];
