import type { DesiredContainer, DesiredPod } from "@kip/agent-api";
import { bytes, defined, formatBytes, formatDecimal } from "@kip/base";
import type { Container, Pod } from "@kip/k8s-types";
import { amountsOfContainers } from "../selection/pod-requests.ts";

const resource = "ephemeral-storage";

type Amount = NonNullable<DesiredPod["ephemeralStorageLimit"]>;

/** What a container requests of its node's disk, and its limit. */
export function ephemeralStorage({
  requests = {},
  limits = {},
}: Container["resources"] = {}): DesiredContainer["ephemeralStorage"] {
  const [limit, request] = [amount(limits[resource]), amount(requests[resource])];
  return limit || request ? defined({ limit, request }) : undefined;
}

/**
 * The most that a pod may take of its node's disk: the limits of its containers together, with the pod's overhead, written as
 * the first of them is.
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

/** A size in bytes, but at most the largest integer that a number holds exactly. */
export function diskBytes(text: string): number {
  return atMost(bytes(text));
}

function atMost(value: number): number {
  return Math.min(Math.ceil(value), Number.MAX_SAFE_INTEGER);
}

function amount(text: string | undefined): Amount | undefined {
  return text === undefined ? undefined : { bytes: diskBytes(text), text };
}
