import { parseQuantity } from "@kip/base";
import type { Container, EphemeralContainer, Pod } from "@kip/k8s-types";

/** A `resourceFieldRef` without its container. */
export interface ResourceReference {
  /** For example `limits.cpu`. */
  readonly resource: string;
  /** Unit of the value. "0" and absent mean 1. */
  readonly divisor?: string | undefined;
}

/**
 * The value of a `resourceFieldRef`: the amount in units of the divisor, rounded up. A limit that is not set, or is 0, is the
 * machine's amount. For huge pages it is 0, because a container without a limit has none. A request that is not set is the
 * limit, or else 0. Undefined for an unknown resource name.
 *
 * @param allocatable resources of the node or of the pod's own machine
 */
export function resourceValue(
  container: Container | EphemeralContainer,
  reference: ResourceReference,
  allocatable: Readonly<Record<string, string>>,
): string | undefined {
  const match = /^(limits|requests)\.(.+)$/.exec(reference.resource);
  const [, kind, name = ""] = match ?? [];
  if (!/^(cpu|memory|ephemeral-storage|hugepages-.+)$/.test(name)) return undefined;
  const { limits = {}, requests = {} } = container.resources ?? {};
  const limit = limits[name] ?? "0";
  const isOpen = parseQuantity(limit) === 0 && !name.startsWith("hugepages-");
  const amount =
    kind === "limits"
      ? ((isOpen ? allocatable[name] : undefined) ?? limit)
      : (requests[name] ?? limit);
  const divisor = parseQuantity(reference.divisor ?? "1") || 1;
  // Milli-units for CPU, like the kubelet. Other resources use whole bytes.
  const scale = name === "cpu" ? 1000 : 1;
  const exact = (parseQuantity(amount) * scale) / (divisor * scale);
  return String(Math.ceil(exact - 1e-9));
}

/**
 * The amounts in variables of a container without limits: the limits of the whole pod, or else the machine's amounts. As in the
 * kubelet, this does not apply to files.
 */
export function withPodLimits(
  { spec }: Pod,
  allocatable: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const limits = Object.entries(spec.resources?.limits ?? {}).filter(
    ([name, amount]) => podLevelNames.has(name) && parseQuantity(amount) > 0,
  );
  return { ...allocatable, ...Object.fromEntries(limits) };
}

/** Resources with optional limits for the whole pod. */
const podLevelNames: ReadonlySet<string> = new Set(["cpu", "memory"]);

/** Whether a variable or file of the pod refers to a request or limit. */
export function hasResourceReference({ spec }: Pod): boolean {
  const { initContainers = [], containers, ephemeralContainers = [], volumes = [] } = spec;
  const isInEnv = [...initContainers, ...containers, ...ephemeralContainers].some(({ env = [] }) =>
    env.some(({ valueFrom }) => valueFrom?.resourceFieldRef),
  );
  return (
    isInEnv ||
    volumes.some(({ downwardAPI, projected }) =>
      [downwardAPI, ...(projected?.sources ?? []).map((source) => source.downwardAPI)].some(
        (source) => source?.items?.some(({ resourceFieldRef }) => resourceFieldRef),
      ),
    )
  );
}

const indexes = new WeakMap<Pod, ReadonlyMap<string, Container>>();

/** The init or regular container with that name. A pod may have thousands, and refer to them as often. */
export function containerNamed(pod: Pod, name: string): Container | undefined {
  const { containers, initContainers = [] } = pod.spec;
  const index =
    indexes.get(pod) ??
    new Map([...initContainers, ...containers].map((each) => [each.name, each]));
  indexes.set(pod, index);
  return index.get(name);
}
