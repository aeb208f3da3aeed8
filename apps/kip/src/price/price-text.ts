import { formatBytes } from "@kip/base";
import {
  hoursPerMonth,
  type Candidate,
  type Catalog,
  type InstanceTypeRequest,
  type PassedOver,
} from "@kip/instance-types";
import type { Price, Prices } from "./price-pods.ts";

/** Prices as text for a person. */
export function priceText(catalog: Catalog, { priced: prices, unpriced }: Prices): string {
  const launchTypes = new Set(prices.map(({ choice }) => choice.launchType));
  const notes = [
    `Machines of ${catalog.cloud} ${catalog.region} at prices of ${sourcesOf(catalog)}, a month being ${hoursPerMonth} hours.`,
    "Disks, addresses and traffic are not included.",
    ...(launchTypes.has("spot") && catalog.isSpotEstimated
      ? ["Spot prices are estimates: the cloud's average savings."]
      : []),
    ...(launchTypes.has("dedicated")
      ? [
          "Dedicated tenancy: on-demand prices, unless a price file has others. AWS adds a fee of $2 an hour for all of them in a region.",
        ]
      : []),
  ];
  const blocks = prices.map((price) => blockOf(price));
  const total = prices.reduce(
    (sum, { pods, choice }) => sum + pods.replicas * choice.pricePerHour,
    0,
  );
  const without = unpriced.length > 0 ? ", without what cannot be priced" : "";
  const sums = prices.length > 1 ? [`All together${without}: ${cost(total)}`] : [];
  return [notes.join("\n"), ...blocks, ...sums].join("\n\n");
}

function sourcesOf({ pricesOf, priceFile }: Catalog): string {
  return [pricesOf, priceFile].filter((source) => source !== undefined).join(" and of ");
}

function blockOf(price: Price): string {
  const { pods, request, choice, runnerUp } = price;
  const number = pods.replicas === 1 ? "" : `, ${pods.replicas} pods`;
  const rows: (readonly [string, string])[] = [
    ["choice", candidateText(choice)],
    ["runner-up", runnerUp ? candidateText(runnerUp) : "none: nothing else fits"],
    ...reasonsOf(price).map((text, index) => [index === 0 ? "why" : "", text] as const),
    ...(pods.replicas === 1
      ? []
      : [["all pods", cost(pods.replicas * choice.pricePerHour)] as const]),
  ];
  const lines = rows.map(([label, text]) => `  ${label.padEnd(10)} ${text}`);
  return [
    `${pods.kind} ${pods.name}${number}: ${pods.replicas === 1 ? "" : "each "}${requestText(request)}`,
    ...lines,
  ].join("\n");
}

function candidateText({ type, launchType, pricePerHour }: Candidate): string {
  const { cpuMilli, memoryBytes, gpus, gpuModel } = type;
  const gpuText = gpus === 0 ? "" : `, ${gpus} ${gpuModel?.name ?? ""} GPU`.replace("  ", " ");
  const size = `${cpuMilli / 1000} CPU, ${memoryText(memoryBytes)} for the pod${gpuText}`;
  return `${type.name} (${size}), ${launchType}: ${cost(pricePerHour)}`;
}

/** Sentences that explain the choice of this type. */
export function reasonsOf({ request, choice, explanation }: Price): readonly string[] {
  const { fitting, offered, passedOver } = explanation;
  const { burstPricePerHour, type } = choice;
  const isNamed = request.typeGlob !== undefined && !request.typeGlob.includes("*");
  const found = isNamed
    ? `it is the type that ${request.typeGlob === type.name ? "is named" : "matches"}`
    : `it is the cheapest of ${fitting} types that fit, of ${offered} on offer`;
  const { baselineCpuMilli = 0, pricePerCpuHour = 1 } = type.burst ?? {};
  const above = Math.round((burstPricePerHour / pricePerCpuHour) * 1000) / 1000;
  const burst =
    burstPricePerHour === 0
      ? []
      : [
          `${dollars(burstPricePerHour)} of it an hour are for ${above} CPU above its baseline of ${baselineCpuMilli / 1000}`,
        ];
  const others = isNamed ? [] : passedOver.map((each) => passedOverText(each, request));
  return [found, ...burst, ...others];
}

function passedOverText(
  { type, launchType, pricePerHour, reason }: PassedOver,
  request: InstanceTypeRequest,
): string {
  const words: Readonly<Record<typeof reason, string>> = {
    name: `does not match "${request.typeGlob ?? ""}"`,
    kept: `is ${type.onlyIfNamed ?? "kept for pods that name it"}; the annotation pod.elotl.co/instance-type takes it`,
    architecture: `is ${type.architecture ?? "amd64"}; the annotation pod.elotl.co/architecture takes it`,
    gpu: "has no such GPU",
    "unasked-gpu": "has a GPU that was not asked for",
    cpu: `has ${type.cpuMilli / 1000} CPU`,
    burst: `has ${(type.burst?.baselineCpuMilli ?? 0) / 1000} CPU all the time`,
    memory: `has ${memoryText(type.memoryBytes)} for the pod`,
    unavailable: "is not available now",
  };
  return `${type.name}, ${launchType} at ${dollars(pricePerHour)}, ${words[reason]}`;
}

function requestText(request: InstanceTypeRequest): string {
  const { cpuMilli, sustainedCpuMilli = cpuMilli, memoryBytes, gpus, gpuKinds = [] } = request;
  if (cpuMilli === 0 && memoryBytes === 0 && gpus === 0)
    return request.typeGlob === undefined ? "asks for nothing" : `type ${request.typeGlob}`;
  const steady =
    sustainedCpuMilli === cpuMilli ? "" : ` (${sustainedCpuMilli / 1000} all the time)`;
  const gpuText = gpus === 0 ? [] : [`${gpus} GPU${gpuKinds.map((kind) => ` ${kind}`).join("")}`];
  return `asks for ${[`${cpuMilli / 1000} CPU${steady}`, `${memoryText(memoryBytes)} memory`, ...gpuText].join(", ")}`;
}

function cost(pricePerHour: number): string {
  return `${dollars(pricePerHour)} an hour, $${(pricePerHour * hoursPerMonth).toFixed(2)} a month`;
}

/** At least two decimals, and more for small prices. */
function dollars(price: number): string {
  return `$${price.toFixed(6).replace(/(\.\d{2,}?)0+$/, "$1")}`;
}

function memoryText(size: number): string {
  if (size === 0) return "0";
  const exact = formatBytes(size);
  if (exact.length <= 6) return exact;
  if (size < 2 ** 30) return `${Math.floor(size / 2 ** 20)}Mi`;
  return `${Math.floor((size / 2 ** 30) * 10) / 10}Gi`;
}
