import { CloudError } from "@kip/cloud";
import { addressText, parseCidr } from "@kip/network-view";
import { cidrsOverlap } from "./cidrs.ts";

/** The assignment of IPv6 addresses, with the same layout as for IPv4. */
export interface Ipv6Plan {
  /** The whole range as a canonical CIDR. */
  readonly range: string;
  /** CIDR of the machines' addresses, the lower half. */
  readonly machines: string;
  /** CIDR of the pods' addresses, the upper half. */
  readonly pods: string;
  /** The host's address for machines: the first address. */
  readonly host: string;
  /** The namespace's address, next hop of machines and of the host: the second address. */
  readonly gateway: string;
  /** Address of machine `slot`. */
  machine(slot: number): string;
  /** Address of the pod on machine `slot`. */
  pod(slot: number): string;
}

/** The network between the gateway and slirp4netns, which supports no other. */
export const uplinkNetwork = "fd00::/64";
/** Each half has room for as many machines as the largest IPv4 range. */
const prefixLengths = { shortest: 16, longest: 100 } as const;
const firstSlot = 16n;

/**
 * Makes the plan for an IPv6 range.
 *
 * @param range IPv6 CIDR, /16 to /100
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the range is invalid
 */
export function planIpv6(range: string): Ipv6Plan {
  const cidr = parseCidr(range);
  if (cidr?.family !== 6) throw invalidRange(range, "it is no IPv6 CIDR");
  const length = Number(cidr.text.split("/")[1]);
  const { shortest, longest } = prefixLengths;
  if (length < shortest || length > longest)
    throw invalidRange(range, `its prefix is not between /${shortest} and /${longest}`);
  if (cidrsOverlap(cidr.text, uplinkNetwork))
    throw invalidRange(range, `it has addresses of ${uplinkNetwork}, which slirp4netns uses`);
  const half = 1n << BigInt(127 - length);
  const at = (offset: bigint): string => addressText(cidr.first + offset, 6);
  return {
    range: cidr.text,
    machines: `${at(0n)}/${length + 1}`,
    pods: `${at(half)}/${length + 1}`,
    host: at(1n),
    gateway: at(2n),
    machine: (slot) => at(firstSlot + BigInt(slot)),
    pod: (slot) => at(half + firstSlot + BigInt(slot)),
  };
}

function invalidRange(range: string, reason: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", `Cannot use range "${range}": ${reason}`, {
    remedy: "Give an IPv6 network such as fd6b:6970::/64",
  });
}
