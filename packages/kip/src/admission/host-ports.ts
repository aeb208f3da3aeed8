import { agentPort } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { hostPortsOf, type PodHostPort } from "../dispatch/host-ports.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/** What kip itself has of each cell's ports: a pod that took it would cut its cell off. */
const reserved: readonly PodHostPort[] = [
  { protocol: "TCP", hostPort: agentPort, containerPort: agentPort },
];

/**
 * Refuses a pod that wants a host port which another pod of the node has, in the kubelet's words.
 *
 * Each pod has a cell of its own, so both could run; but a workload that relies on the refusal, such as one pod per node by its
 * host port, would not get it, and the scheduler counts ports for the whole node.
 */
export function rejectHostPorts(
  pod: Pod,
  { otherPods }: Pick<AdmissionContext, "otherPods">,
): Rejection | undefined {
  const wanted = portsOf(pod);
  if (wanted.size === 0) return undefined;
  const isTaken =
    reserved.some((port) => wanted.has(port)) ||
    otherPods().some((other) => conflict(wanted, portsOf(other)));
  if (!isTaken) return undefined;
  return {
    reason: "NodePorts",
    message:
      "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
  };
}

/** Kept, because each pod with host ports is compared with all others, and one may have tens of thousands. */
const portsByPod = new WeakMap<Pod["spec"], HostPorts>();

function portsOf(pod: Pod): HostPorts {
  const ports = portsByPod.get(pod.spec) ?? new HostPorts(hostPortsOf(pod));
  portsByPod.set(pod.spec, ports);
  return ports;
}

/** Looks up the ports of the one that has fewer. */
function conflict(one: HostPorts, other: HostPorts): boolean {
  const [fewer, more] = one.size < other.size ? [one, other] : [other, one];
  return fewer.list.some((port) => more.has(port));
}

/** Host ports of a pod. A port of all addresses is that of each one. */
class HostPorts {
  readonly list: readonly PodHostPort[];
  readonly #keys = new Set<string>();

  constructor(ports: readonly PodHostPort[]) {
    this.list = ports;
    for (const port of ports)
      this.#keys.add(keyOf(port)).add(`${keyOf(port)} ${port.hostIp ?? "*"}`);
  }

  get size(): number {
    return this.list.length;
  }

  has(port: PodHostPort): boolean {
    const key = keyOf(port);
    if (port.hostIp === undefined) return this.#keys.has(key);
    return this.#keys.has(`${key} *`) || this.#keys.has(`${key} ${port.hostIp}`);
  }
}

function keyOf({ protocol, hostPort }: PodHostPort): string {
  return `${protocol} ${hostPort}`;
}
