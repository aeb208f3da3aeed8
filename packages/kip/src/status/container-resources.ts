import type { ContainerReport, DesiredPod, ReportedPod, ResourceAmounts } from "@kip/agent-api";
import { defined, formatBytes, formatMilliCpu } from "@kip/base";
import type { Container, ContainerStatus } from "@kip/k8s-types";
import { resourceAmounts } from "../dispatch/resource-amounts.ts";

type Quantities = Readonly<Record<string, string>>;
type Requirements = Readonly<NonNullable<Container["resources"]>>;
type Shown = Pick<ContainerStatus, "allocatedResources" | "resources">;

/**
 * A container's resources on its cell, as a kubelet shows them: `allocatedResources` are the requests that the cell has
 * granted, and `resources` are in force. Resources other than CPU and memory are those of the pod. Empty before the container's
 * first start.
 *
 * @param resources the container's current resources in the pod, which may be more than was granted
 */
export function containerResources(
  { allocated, actuated }: Pick<ContainerReport, "allocated" | "actuated">,
  resources: Requirements = {},
): Shown {
  if (!allocated) return {};
  const { limits: _limits, requests: _requests, ...others } = resources;
  return defined({
    allocatedResources: withAmounts(resources, allocated).requests,
    resources: { ...others, ...withAmounts(resources, actuated ?? allocated) },
  });
}

/** Keeps the pod's own text, unless the amount differs. */
function withAmounts(
  own: Requirements,
  amounts: ResourceAmounts,
): Pick<Requirements, "limits" | "requests"> {
  const known = resourceAmounts(own);
  const list = (kind: "Limit" | "Request", texts: Quantities = {}): Quantities | undefined => {
    const { cpu, memory, ...others } = texts;
    const [milli, size] = [amounts[`cpuMilli${kind}`], amounts[`memoryBytes${kind}`]];
    const all: Record<string, string> = { ...others };
    if (milli !== undefined)
      all["cpu"] = milli === known[`cpuMilli${kind}`] && cpu ? cpu : formatMilliCpu(milli);
    if (size !== undefined)
      all["memory"] = size === known[`memoryBytes${kind}`] && memory ? memory : canonical(size);
    return Object.keys(all).length > 0 ? all : undefined;
  };
  return defined({ limits: list("Limit", own.limits), requests: list("Request", own.requests) });
}

/** The API server's notation, so that equal amounts have equal texts. */
function canonical(size: number): string {
  const text = formatBytes(size);
  const zeros = /^[1-9]\d*?((?:000){1,4})$/.exec(text)?.[1]?.length;
  if (zeros === undefined) return text;
  return text.slice(0, -zeros) + ["k", "M", "G", "T"][zeros / 3 - 1];
}

/** What a cell's claims are compared with. */
interface Plausibility {
  /** The machine's resources. Undefined while not known. */
  readonly machine: DesiredPod["machine"];
  /** The pod's current containers, by name. */
  readonly specs: ReadonlyMap<string, Container>;
  readonly published: ReadonlyMap<string, ContainerStatus>;
}

/**
 * A cell's report without false claims about granted resources. The scheduler counts those as used, so a hostile cell could
 * fill the node. If the containers together claim more than their machine has, they show what the pod requests, or, while the
 * machine is not known, what was published before.
 */
export function withPlausibleResources(report: ReportedPod, context: Plausibility): ReportedPod {
  const { machine, specs, published } = context;
  const sidecars = report.initContainers.filter(
    ({ name }) => specs.get(name)?.restartPolicy === "Always",
  );
  const resizable = new Set([...sidecars, ...report.containers]);
  const sum = (of: "allocated" | "actuated", name: keyof ResourceAmounts): number =>
    [...resizable].reduce((total, one) => total + (one[of]?.[name] ?? 0), 0);
  const isWithin =
    machine !== undefined &&
    (["allocated", "actuated"] as const).every(
      (of) =>
        sum(of, "cpuMilliRequest") <= machine.cpuMilli &&
        sum(of, "memoryBytesRequest") <= machine.memoryBytes,
    );
  const checked = (one: ContainerReport): ContainerReport => {
    if (!one.allocated || (isWithin && resizable.has(one))) return one;
    const wanted = resourceAmounts(specs.get(one.name)?.resources);
    const before = machine ? undefined : published.get(one.name)?.resources;
    const isKnown = (claimed: ResourceAmounts | undefined): boolean =>
      claimed !== undefined && before !== undefined && isSame(claimed, resourceAmounts(before));
    return {
      ...one,
      allocated: isKnown(one.allocated) ? one.allocated : wanted,
      actuated: isKnown(one.actuated) ? one.actuated : wanted,
    };
  };
  return {
    ...report,
    initContainers: report.initContainers.map(checked),
    containers: report.containers.map(checked),
  };
}

function isSame(a: ResourceAmounts, b: ResourceAmounts): boolean {
  return (
    (a.cpuMilliLimit ?? 0) === (b.cpuMilliLimit ?? 0) &&
    (a.cpuMilliRequest ?? 0) === (b.cpuMilliRequest ?? 0) &&
    (a.memoryBytesLimit ?? 0) === (b.memoryBytesLimit ?? 0) &&
    (a.memoryBytesRequest ?? 0) === (b.memoryBytesRequest ?? 0)
  );
}
