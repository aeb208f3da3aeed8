import { AgentError } from "@kip/agent-api";
import { bytes, errorText } from "@kip/base";

/** Limits of a pod's traffic, bits per second. @default none */
export interface Bandwidth {
  /** Traffic to the pod. */
  readonly ingressBits?: number | undefined;
  /** Traffic from the pod. */
  readonly egressBits?: number | undefined;
}

const least = 1e3;
const most = 1e15;
/** No link of a cell is faster, and the kernel counts the bytes of a burst in 32 bits. */
const fastest = 1e11;

/** Size of a burst: the traffic of this many seconds, and a few of the largest packets. */
const burstSeconds = 0.05;
const leastBurstBytes = 32 * 1024;
/** Maximum delay of a packet. */
const latencySeconds = 0.025;

/**
 * Parses the annotations `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth`: quantities from 1k to 1P.
 *
 * @throws {AgentError} `AGENT_BANDWIDTH_INVALID`
 * @see https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/#support-traffic-shaping
 */
export function bandwidthOf(annotations: Readonly<Record<string, string>>): Bandwidth {
  return {
    ingressBits: read(annotations, "kubernetes.io/ingress-bandwidth"),
    egressBits: read(annotations, "kubernetes.io/egress-bandwidth"),
  };
}

function read(annotations: Readonly<Record<string, string>>, name: string): number | undefined {
  const text = annotations[name];
  if (text === undefined) return undefined;
  const bits = quantity(name, text);
  if (bits < least) throw invalid(name, text, "resource is unreasonably small (< 1kbit)");
  if (bits > most) throw invalid(name, text, "resource is unreasonably large (> 1Pbit)");
  return bits;
}

function quantity(name: string, text: string): number {
  try {
    return bytes(text);
  } catch (error) {
    throw invalid(name, text, errorText(error));
  }
}

function invalid(name: string, text: string, reason: string): AgentError {
  const shown = text.slice(0, 64);
  return new AgentError(
    "AGENT_BANDWIDTH_INVALID",
    `Cannot limit the pod's bandwidth by annotation ${name}="${shown}": ${reason}`,
    { remedy: "Write bits per second, from 1k to 1P, for example 10M" },
  );
}

/**
 * The device through which the pod's outgoing traffic is redirected, because only traffic that leaves a device can be limited.
 */
export function egressDevice(cable: string): string {
  return `${cable}-out`;
}

/**
 * Commands for tc in the cell's own namespace, for a cable without limits. They follow the CNI plugin `bandwidth`: a token
 * bucket filter on the cell's end of the cable, and one on a device through which all traffic from the pod is redirected.
 */
export function shapingCommands(
  { ingressBits, egressBits }: Bandwidth,
  cable: string,
): readonly string[] {
  const out = egressDevice(cable);
  const ingress = ingressBits === undefined ? [] : [tokenBucket(cable, ingressBits)];
  if (egressBits === undefined) return ingress;
  return [
    ...ingress,
    // Add the bucket first, so that all traffic through it is counted.
    tokenBucket(out, egressBits),
    `qdisc add dev ${cable} handle ffff: ingress`,
    `filter add dev ${cable} parent ffff: protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev ${out}`,
  ];
}

function tokenBucket(device: string, bits: number): string {
  const rate = Math.min(bits, fastest);
  const burst = Math.max(leastBurstBytes, Math.ceil((rate / 8) * burstSeconds));
  const limit = burst + Math.ceil((rate / 8) * latencySeconds);
  return `qdisc add dev ${device} root tbf rate ${rate}bit burst ${burst} limit ${limit}`;
}
