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
  const wanted = hostPortsOf(pod);
  if (wanted.length === 0) return undefined;
  const taken = [...reserved, ...otherPods().flatMap(hostPortsOf)];
  if (!wanted.some((port) => taken.some((other) => conflict(port, other)))) return undefined;
  return {
    reason: "NodePorts",
    message:
      "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
  };
}

/** A port of all addresses is that of each one. */
function conflict(a: PodHostPort, b: PodHostPort): boolean {
  if (a.hostPort !== b.hostPort || a.protocol !== b.protocol) return false;
  return a.hostIp === undefined || b.hostIp === undefined || a.hostIp === b.hostIp;
}
