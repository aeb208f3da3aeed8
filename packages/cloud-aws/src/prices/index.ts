export {
  readRegionPrices,
  type ReadRegionPricesOptions,
  type RegionPriceEntries,
} from "./read-region-prices.ts";
