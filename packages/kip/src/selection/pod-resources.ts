import { bytes, milliCpu } from "@kip/base";
import type { Container, Pod } from "@kip/k8s-types";
import { hugePageBytes } from "./pod-requests.ts";

/** Resources that a pod needs on its machine. */
export interface PodResources {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpus: number;
}

/**
 * The sum of what a pod's containers may use: per container the limit, otherwise the request. Init containers run one at a
 * time, so they count with the largest of them. Sidecars (init containers that restart) run together with everything after
 * them. A pod-level limit replaces the sum, a pod-level request only if it is larger. Huge pages are memory of the machine that
 * nothing else can use.
 *
 * @see https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
 */
export function podResources(pod: Pod): PodResources {
  let sidecars: PodResources = { cpuMilli: 0, memoryBytes: 0, gpus: 0 };
  let starting = sidecars;
  for (const container of pod.spec.initContainers ?? []) {
    const own = containerResources(container);
    if (container.restartPolicy === "Always") {
      sidecars = combine(sidecars, own, (a, b) => a + b);
      starting = combine(starting, sidecars, Math.max);
    } else {
      starting = combine(
        starting,
        combine(sidecars, own, (a, b) => a + b),
        Math.max,
      );
    }
  }
  const running = (pod.spec.containers ?? [])
    .map(containerResources)
    .reduce((sum, own) => combine(sum, own, (a, b) => a + b), sidecars);
  const overhead = pod.spec.overhead ?? {};
  const extra = {
    cpuMilli: overhead["cpu"] === undefined ? 0 : milliCpu(overhead["cpu"]),
    memoryBytes:
      hugePageBytes(pod) + (overhead["memory"] === undefined ? 0 : bytes(overhead["memory"])),
    gpus: 0,
  };
  const sum = combine(starting, running, Math.max);
  return combine(ofWholePod(pod, sum), extra, (a, b) => a + b);
}

/** @see https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#pod-level-resource-specification */
function ofWholePod({ spec }: Pod, sum: PodResources): PodResources {
  const { resources } = (spec ?? {}) as Pick<Container, "resources">; // newer than the generated types
  const { limits = {}, requests = {} } = resources ?? {};
  const amount = (name: string, read: (text: string) => number, ofContainers: number): number => {
    const [limit, request] = [limits[name], requests[name]];
    if (limit !== undefined) return read(limit);
    return request === undefined ? ofContainers : Math.max(read(request), ofContainers);
  };
  return {
    ...sum,
    cpuMilli: amount("cpu", milliCpu, sum.cpuMilli),
    memoryBytes: amount("memory", bytes, sum.memoryBytes),
  };
}

function containerResources(container: Container): PodResources {
  const limits = container.resources?.limits ?? {};
  const requests = container.resources?.requests ?? {};
  const cpu = limits["cpu"] ?? requests["cpu"] ?? "0";
  const memory = limits["memory"] ?? requests["memory"] ?? "0";
  const gpus = limits["nvidia.com/gpu"] ?? "0";
  return {
    cpuMilli: milliCpu(cpu),
    memoryBytes: bytes(memory),
    gpus: Math.ceil(milliCpu(gpus) / 1000),
  };
}

function combine(
  a: PodResources,
  b: PodResources,
  by: (x: number, y: number) => number,
): PodResources {
  return {
    cpuMilli: by(a.cpuMilli, b.cpuMilli),
    memoryBytes: by(a.memoryBytes, b.memoryBytes),
    gpus: by(a.gpus, b.gpus),
  };
}
