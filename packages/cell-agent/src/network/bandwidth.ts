import { AgentError } from "@kip/agent-api";
import { bytes, errorText } from "@kip/base";

/** Limits of a pod's traffic, bits per second. @default none */
export interface Bandwidth {
  /** What the pod receives. */
  readonly ingressBits?: number | undefined;
  /** What the pod sends. */
  readonly egressBits?: number | undefined;
}

const least = 1e3;
const most = 1e15;
/** No link of a cell is faster, and the kernel counts the bytes of a burst with 32 bits. */
const fastest = 1e11;

/** How much may pass at once: the traffic of so many seconds, and a few of the largest packets. */
const burstSeconds = 0.05;
const leastBurstBytes = 32 * 1024;
/** For how long a packet waits at most. */
const latencySeconds = 0.025;

/**
 * Reads the annotations `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth`: quantities from 1k to 1P.
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

/** The device that what the pod sends is led through, as only what leaves a device is held back. */
export function egressDevice(cable: string): string {
  return `${cable}-out`;
}

/**
 * Commands of tc for the cell's own namespace, where the cable has no limits yet. As the CNI plugin `bandwidth` does it: a
 * token bucket filter on the cell's end of the cable, and one on a device that all which comes from the pod is led through.
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
    // The bucket comes first: nothing passes it that is not counted.
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
