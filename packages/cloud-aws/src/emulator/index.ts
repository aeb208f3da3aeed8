export { Ec2Proxy } from "./ec2-proxy.ts";
export type { Machine, MachineLaunch, Machines } from "./machines.ts";
export { MetadataService, type MetadataEntry } from "./metadata-service.ts";
export { installMoto, startMoto, whyNoMoto, type MotoServer } from "./moto-server.ts";
export { childOf, parseXml, textOf } from "./xml.ts";
export { PriceListServer, type ListedPrice } from "./price-list-server.ts";
