import { parseQuantity } from "@kip/base";
import type { Container, EphemeralContainer, Pod } from "@kip/k8s-types";

/** A `resourceFieldRef` without its container. */
export interface ResourceReference {
  /** For example `limits.cpu`. */
  readonly resource: string;
  /** Unit of the value; "0" and absent mean 1. */
  readonly divisor?: string | undefined;
}

/**
 * The value of a `resourceFieldRef`: the amount in units of the divisor, rounded up. A limit that is
 * not set, or 0, is the machine's amount, except for huge pages, of which a container without a limit has none; a request that is not set is the
 * limit, or else 0. Undefined for an unknown resource name.
 *
 * @param allocatable of the node, or of the pod's own machine
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
  // Milli-units for CPU, as the kubelet divides; the rest are whole bytes.
  const scale = name === "cpu" ? 1000 : 1;
  const exact = (parseQuantity(amount) * scale) / (divisor * scale);
  return String(Math.ceil(exact - 1e-9));
}

/** What a variable shows of a container without limits: those of the pod as a whole, else the machine's amounts. Not files, as in a kubelet. */
export function withPodLimits(
  { spec }: Pod,
  allocatable: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const limits = Object.entries(spec.resources?.limits ?? {}).filter(
    ([name, amount]) => podLevelNames.has(name) && parseQuantity(amount) > 0,
  );
  return { ...allocatable, ...Object.fromEntries(limits) };
}

/** Resources that a pod as a whole may have limits of, and that may be left open. */
const podLevelNames: ReadonlySet<string> = new Set(["cpu", "memory"]);

/** Whether a variable or a file of the pod shows a request or a limit. */
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

/** The init or regular container of that name; a pod may have thousands, and name them as often. */
export function containerNamed(pod: Pod, name: string): Container | undefined {
  const { containers, initContainers = [] } = pod.spec;
  const index =
    indexes.get(pod) ??
    new Map([...initContainers, ...containers].map((each) => [each.name, each]));
  indexes.set(pod, index);
  return index.get(name);
}
