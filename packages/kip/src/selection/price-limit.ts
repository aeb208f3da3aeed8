import type { Candidate } from "@kip/instance-types";
import type { CellConstraints } from "../annotations/read-annotations.ts";
import { ProviderError } from "../errors.ts";

/**
 * Compares the cheapest machine that fits with the pod's price limit. All others cost more.
 *
 * @throws {ProviderError} `PRICE_ABOVE_LIMIT`
 */
export function checkPrice(
  { type, launchType, pricePerHour }: Pick<Candidate, "type" | "launchType" | "pricePerHour">,
  { maxPricePerHour }: Pick<CellConstraints, "maxPricePerHour">,
): void {
  if (maxPricePerHour === undefined || pricePerHour <= maxPricePerHour) return;
  throw new ProviderError(
    "PRICE_ABOVE_LIMIT",
    `Cannot start a cell for at most $${maxPricePerHour} an hour: the cheapest that fits, ${type.name}, costs $${pricePerHour}`,
    {
      remedy: `Raise pod.elotl.co/max-price-per-hour, ${launchType === "spot" ? "or ask for less" : "ask for less, or allow spot"}`,
    },
  );
}
