import type { Bandwidth } from "@kip/agent-api";

/** No link of a cell is faster, and the kernel counts the bytes of a burst in 32 bits. */
const fastest = 1e11;

/** Size of a burst: the traffic of this many seconds, and a few of the largest packets. */
const burstSeconds = 0.05;
const leastBurstBytes = 32 * 1024;
/** Maximum delay of a packet. */
const latencySeconds = 0.025;

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
