export {
  builtInTypes,
  catalogClouds,
  catalogRegions,
  openCatalog,
  type Catalog,
  type OpenCatalogOptions,
} from "./catalog/open-catalog.ts";
export { InstanceTypeError, type InstanceTypeErrorCode } from "./errors.ts";
export type {
  Architecture,
  Burst,
  CustomFamily,
  GpuModel,
  InstanceTypeOffers,
  OfferedInstanceType,
} from "./offered-instance-type.ts";
export { machineMemoryBytes, podMemoryBytes } from "./overhead.ts";
export { rankInstanceTypes, type Candidate } from "./selection/rank-instance-types.ts";
export type { InstanceTypeRequest, Unavailable } from "./selection/request.ts";
export { selectInstanceType } from "./selection/select-instance-type.ts";
export { explainChoice, type Explanation, type PassedOver } from "./selection/passed-over.ts";
export type { Rejection } from "./selection/judge.ts";
export type { PriceEntry } from "./prices/price-file.ts";
export { writePriceFile } from "./catalog/write-price-file.ts";
export { hoursPerMonth } from "./prices/hours-per-month.ts";
