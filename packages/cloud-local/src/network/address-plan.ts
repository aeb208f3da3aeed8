import { CloudError } from "@kip/cloud";
import { planIpv6, type Ipv6Plan } from "./ipv6-plan.ts";

/**
 * The assignment of addresses in one IPv4 range, and optionally in one IPv6 range. The lower half is for machines, and the
 * upper half for pods.
 */
export interface AddressPlan {
  /** The whole range as a canonical CIDR. */
  readonly range: string;
  readonly prefixLength: number;
  /** CIDR of the machines' addresses. */
  readonly machines: string;
  /** CIDR of the pods' addresses. */
  readonly pods: string;
  /** The host's address for machines: the first address. */
  readonly host: string;
  /** Gateway and DNS server of the machines: the second address. */
  readonly gateway: string;
  /** Address of the cluster's DNS server in the namespace: the third address. */
  readonly clusterDns: string;
  /**
   * The source address that pods see for NodePort clients on other computers. It does not count as one of the node's. The
   * fourth address.
   */
  readonly relay: string;
  /** The last /24 of the machines' half, for the link between the gateway and the uplink process. */
  readonly uplink: string;
  /** DNS server inside {@link AddressPlan.uplink}. */
  readonly uplinkDns: string;
  /** Maximum number of machines. */
  readonly capacity: number;
  /** Slot of the machine that pulls images for a template. It comes after those of machines. */
  readonly preloadSlot: number;
  /** The plan for IPv6, if it is used. */
  readonly ipv6?: Ipv6Plan | undefined;
  /** Address of machine `slot`, 0 to capacity − 1, or of {@link AddressPlan.preloadSlot}. */
  machine(slot: number): string;
  /** Address of the pod on machine `slot`. */
  pod(slot: number): string;
}

/** The first slot's offset. It keeps the first addresses for the host, the gateway and future uses. */
const firstSlot = 16;

/**
 * Makes the plan for a range.
 *
 * @param range IPv4 CIDR, /8 to /22
 * @param ipv6Range see {@link planIpv6}
 * @throws {CloudError} `CLOUD_INVALID_REQUEST` if the range is invalid
 */
export function planAddresses(range: string, ipv6Range?: string): AddressPlan {
  const { base, prefixLength } = parseCidr(range);
  if (prefixLength < 8 || prefixLength > 22)
    throw invalidRange(range, "its prefix is not between /8 and /22");
  const half = 2 ** (32 - prefixLength) / 2;
  const uplink = base + half - 256;
  const capacity = half - 256 - firstSlot - 1;
  const address = (slot: number, offset: number): string => {
    if (slot < 0 || slot > capacity) throw new RangeError(`Slot ${slot} is not in ${range}`);
    return formatAddress(base + offset + firstSlot + slot);
  };
  return {
    range: `${formatAddress(base)}/${prefixLength}`,
    prefixLength,
    machines: `${formatAddress(base)}/${prefixLength + 1}`,
    pods: `${formatAddress(base + half)}/${prefixLength + 1}`,
    host: formatAddress(base + 1),
    gateway: formatAddress(base + 2),
    clusterDns: formatAddress(base + 3),
    relay: formatAddress(base + 4),
    uplink: `${formatAddress(uplink)}/24`,
    uplinkDns: formatAddress(uplink + 3), // slirp4netns always serves DNS at its third address
    capacity,
    preloadSlot: capacity,
    ipv6: ipv6Range === undefined ? undefined : planIpv6(ipv6Range),
    machine: (slot) => address(slot, 0),
    pod: (slot) => address(slot, half),
  };
}

interface Cidr {
  readonly base: number;
  readonly prefixLength: number;
}

/** Parses "a.b.c.d/n" or "a.b.c.d" (a /32) and clears the host bits. */
function parseCidr(text: string): Cidr {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\/(\d{1,2}))?$/.exec(text);
  const octets = match?.slice(1, 5).map(Number) ?? [];
  const prefixLength = Number(match?.[5] ?? 32);
  if (match === null || octets.some((octet) => octet > 255) || prefixLength > 32)
    throw invalidRange(text, "it is no IPv4 CIDR");
  const value = octets.reduce((sum, octet) => sum * 256 + octet, 0);
  const size = 2 ** (32 - prefixLength);
  return { base: Math.floor(value / size) * size, prefixLength };
}

function formatAddress(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}

function invalidRange(range: string, reason: string): CloudError {
  return new CloudError("CLOUD_INVALID_REQUEST", `Cannot use range "${range}": ${reason}`, {
    remedy: "Give an IPv4 network such as 198.18.0.0/15",
  });
}
