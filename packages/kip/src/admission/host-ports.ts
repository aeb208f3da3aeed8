import { agentPort } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { hostPortsOf, type PodHostPort } from "../dispatch/host-ports.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/** Ports of each cell that kip uses itself. A pod that took one would make its cell unreachable. */
const reserved: ReadonlySet<string> = new Set([
  keyOf({ protocol: "TCP", hostPort: agentPort, containerPort: agentPort }),
]);

/**
 * Refuses a pod whose host port is used by another pod of the node, in the kubelet's words.
 *
 * Each pod has its own cell, so both could run. But some workloads rely on the refusal, such as one pod per node by its host
 * port, and the scheduler counts ports for the whole node.
 */
export function rejectHostPorts(
  pod: Pod,
  {
    otherPods,
    takenPorts = new TakenHostPorts(),
  }: Pick<AdmissionContext, "otherPods" | "takenPorts">,
): Rejection | undefined {
  const wanted = hostPortsOf(pod);
  if (wanted.length === 0) return undefined;
  takenPorts.setPods(otherPods());
  if (!wanted.some((port) => reserved.has(keyOf(port)) || takenPorts.has(port))) return undefined;
  return {
    reason: "NodePorts",
    message:
      "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
  };
}

/**
 * The host ports that the node's pods use. Each pod is read only once, because there may be thousands of pods, and a pod may
 * have tens of thousands of ports.
 */
export class TakenHostPorts {
  /** Port keys of each pod, by pod UID. A pod's ports never change. */
  readonly #ofPods = new Map<string, readonly string[]>();
  /** Number of ports with each key. */
  readonly #counts = new Map<string, number>();

  /** Replaces the set of pods. */
  setPods(pods: readonly Pod[]): void {
    const present = new Set(pods.map(({ metadata }) => metadata.uid));
    for (const [uid, keys] of this.#ofPods) {
      if (present.has(uid)) continue;
      this.#ofPods.delete(uid);
      for (const key of keys) this.#count(key, -1);
    }
    for (const pod of pods) {
      const { uid } = pod.metadata;
      if (this.#ofPods.has(uid)) continue;
      const keys = hostPortsOf(pod).flatMap((port) => [keyOf(port), keyAt(port, port.hostIp)]);
      this.#ofPods.set(uid, keys);
      for (const key of keys) this.#count(key, 1);
    }
  }

  /** Whether a pod uses the port. A port for all addresses conflicts with that port at any address. */
  has(port: PodHostPort): boolean {
    if (port.hostIp === undefined) return this.#counts.has(keyOf(port));
    return this.#counts.has(keyAt(port, undefined)) || this.#counts.has(keyAt(port, port.hostIp));
  }

  #count(key: string, more: 1 | -1): void {
    const count = (this.#counts.get(key) ?? 0) + more;
    if (count > 0) this.#counts.set(key, count);
    else this.#counts.delete(key);
  }
}

function keyOf({ protocol, hostPort }: PodHostPort): string {
  return `${protocol} ${hostPort}`;
}

function keyAt(port: PodHostPort, address = "*"): string {
  return `${keyOf(port)} ${address}`;
}
