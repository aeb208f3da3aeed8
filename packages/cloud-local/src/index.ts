export { createLocalCloud, type LocalCloud } from "./local-cloud.ts";
export type { LocalCloudOptions } from "./local-cloud-options.ts";
