export { createLocalCloud, type LocalCloud, type LocalCloudOptions } from "./local-cloud.ts";
