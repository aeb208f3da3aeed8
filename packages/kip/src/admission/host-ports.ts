import { agentPort } from "@kip/agent-api";
import type { Pod } from "@kip/k8s-types";
import { hostPortsOf, type PodHostPort } from "../dispatch/host-ports.ts";
import type { AdmissionContext, Rejection } from "./rejection.ts";

/** What kip itself has of each cell's ports: a pod that took it would cut its cell off. */
const reserved: ReadonlySet<string> = new Set([
  keyOf({ protocol: "TCP", hostPort: agentPort, containerPort: agentPort }),
]);

/**
 * Refuses a pod that wants a host port which another pod of the node has, in the kubelet's words.
 *
 * Each pod has a cell of its own, so both could run; but a workload that relies on the refusal, such as one pod per node by its
 * host port, would not get it, and the scheduler counts ports for the whole node.
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
 * The host ports that pods of the node have. They are looked up, and read once for each pod: there may be thousands of pods, and one may have
 * tens of thousands of ports.
 */
export class TakenHostPorts {
  /** Keys of the ports of each pod, by its UID: a pod's ports never change. */
  readonly #ofPods = new Map<string, readonly string[]>();
  /** How many ports have a key. */
  readonly #counts = new Map<string, number>();

  /** Takes these pods for all that there are. */
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

  /** Whether a pod has the port. A port of all addresses is that of each one. */
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
