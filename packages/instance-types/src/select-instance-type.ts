import { formatBytes, globMatches } from "@kip/base";
import { InstanceTypeError } from "./errors.ts";

/** An instance type as the selector sees it; a cloud's offer has this shape. */
export interface OfferedInstanceType {
  readonly name: string;
  /** What a pod gets, thousandths of a core. */
  readonly cpuMilli: number;
  /** What a pod gets, bytes. */
  readonly memoryBytes: number;
  readonly gpus: number;
  /** US dollars per hour by launch type. A launch type without a price is not on offer. */
  readonly pricePerHour: Readonly<Partial<Record<string, number>>>;
}

/** What a pod asks for. */
export interface RequestedResources {
  /** Thousandths of a core, 0 or more. */
  readonly cpuMilli: number;
  /** Bytes, 0 or more. */
  readonly memoryBytes: number;
  /** Whole GPUs, 0 or more. */
  readonly gpus: number;
  /** Only types whose name matches, by `globMatches` of @kip/base. @default all */
  readonly typeGlob?: string | undefined;
  /** "on-demand", "spot" or "dedicated". */
  readonly launchType: string;
}

/**
 * The cheapest type that gives a pod what it asks for. Equal prices: the smallest (CPU, then memory,
 * then GPUs), then the first by name.
 *
 * @throws {InstanceTypeError} `NO_INSTANCE_TYPE_FITS`, not retryable; the message says what was asked for
 * and what the biggest type on offer has
 */
export function selectInstanceType<T extends OfferedInstanceType>(
  offers: readonly T[],
  request: RequestedResources,
): T {
  const eligible = offers.filter(
    (offer) =>
      offer.pricePerHour[request.launchType] !== undefined &&
      (request.typeGlob === undefined || globMatches(request.typeGlob, offer.name)),
  );
  const [first, ...others] = eligible.filter((offer) => fits(offer, request));
  if (first === undefined) throw nothingFits(eligible, request);
  return others.reduce(
    (best, offer) => (compare(offer, best, request.launchType) < 0 ? offer : best),
    first,
  );
}

function fits(offer: OfferedInstanceType, request: RequestedResources): boolean {
  return (
    offer.cpuMilli >= request.cpuMilli &&
    offer.memoryBytes >= request.memoryBytes &&
    offer.gpus >= request.gpus
  );
}

function compare(a: OfferedInstanceType, b: OfferedInstanceType, launchType: string): number {
  const price = (a.pricePerHour[launchType] ?? 0) - (b.pricePerHour[launchType] ?? 0);
  return price || compareSize(a, b) || (a.name < b.name ? -1 : 1);
}

function compareSize(a: OfferedInstanceType, b: OfferedInstanceType): number {
  return a.cpuMilli - b.cpuMilli || a.memoryBytes - b.memoryBytes || a.gpus - b.gpus;
}

function nothingFits(
  eligible: readonly OfferedInstanceType[],
  asked: RequestedResources,
): InstanceTypeError {
  const wanted = [
    describe(asked),
    ...(asked.typeGlob === undefined ? [] : [`type "${asked.typeGlob}"`]),
    ...(asked.launchType === "on-demand" ? [] : [`launch type ${asked.launchType}`]),
  ].join(", ");
  const biggest = [...eligible].sort((a, b) => a.gpus - b.gpus || compareSize(a, b)).at(-1);
  const mostMemory = [...eligible].sort((a, b) => a.memoryBytes - b.memoryBytes).at(-1);
  const tops = [...new Set([biggest, mostMemory])].filter((offer) => offer !== undefined);
  const limit =
    tops.length === 0
      ? "no type of that name and launch type is on offer"
      : `the biggest on offer is ${tops.map((offer) => `${offer.name} (${describe(offer)})`).join(" or ")}`;
  return new InstanceTypeError(
    "NO_INSTANCE_TYPE_FITS",
    `Cannot find an instance type for ${wanted}: ${limit}`,
    {
      remedy:
        tops.length === 0
          ? "Correct the pod's instance type or launch type annotation"
          : "Lower the pod's requests and limits, or use a cloud with bigger machines",
      facts: { asked, biggest: biggest?.name },
    },
  );
}

function describe(size: Pick<RequestedResources, "cpuMilli" | "memoryBytes" | "gpus">): string {
  const cpu = `${size.cpuMilli / 1000} CPU`;
  const gpus = size.gpus === 0 ? [] : [`${size.gpus} GPU`];
  return [cpu, `${readableBytes(size.memoryBytes)} memory`, ...gpus].join(", ");
}

function readableBytes(value: number): string {
  const exact = formatBytes(value);
  return exact.length <= 7 ? exact : `${(value / 2 ** 30).toFixed(1)}Gi`;
}
