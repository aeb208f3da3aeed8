export { createLocalCloud, type ClusterDnsPlace, type LocalCloud } from "./local-cloud.ts";
export type { LocalCloudOptions } from "./options/local-cloud-options.ts";
