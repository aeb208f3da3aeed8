import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { bytes, defined, formatBytes, formatDecimal } from "@kip/base";
import type { Container, Pod } from "@kip/k8s-types";
import { amountsOfContainers } from "../selection/pod-requests.ts";

const resource = "ephemeral-storage";

type Amount = NonNullable<DesiredPod["ephemeralStorageLimit"]>;

/** A container's request and limit for its node's disk. */
export function ephemeralStorage({
  requests = {},
  limits = {},
}: Container["resources"] = {}): DesiredContainer["ephemeralStorage"] {
  const [limit, request] = [amount(limits[resource]), amount(requests[resource])];
  return limit || request ? defined({ limit, request }) : undefined;
}

/**
 * The limit of a pod for its node's disk: the sum of its containers' limits and the pod's overhead, in the notation of the
 * first limit.
 */
export function podStorageLimit({ spec }: Pod): DesiredPod["ephemeralStorageLimit"] {
  const sum = amountsOfContainers(spec, "limits").get(resource);
  if (sum === undefined) return undefined;
  const total = atMost(sum + (sum === 0 ? 0 : bytes(spec.overhead?.[resource] ?? "0")));
  const all = [...spec.containers, ...(spec.initContainers ?? [])];
  const texts = all.flatMap(({ resources }) => resources?.limits?.[resource] ?? []);
  const same = texts.find((text) => diskBytes(text) === total);
  const format = texts[0]?.endsWith("i") === true ? formatBytes : formatDecimal;
  return { bytes: total, text: same ?? format(total) };
}

/** A size in bytes, limited to the largest integer that a number represents exactly. */
export function diskBytes(text: string): number {
  return atMost(bytes(text));
}

function atMost(value: number): number {
  return Math.min(Math.ceil(value), Number.MAX_SAFE_INTEGER);
}

function amount(text: string | undefined): Amount | undefined {
  return text === undefined ? undefined : { bytes: diskBytes(text), text };
}
