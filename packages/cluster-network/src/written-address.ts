import { addressText, canonicalAddress, parseCidr, type Cidr } from "@kip/network-view";

/** The first 96 bits of an IPv4 address that is written as IPv6. */
const mapped = { number: 0xffffn, bits: 96 } as const;

/** How such an address begins in its canonical form; two groups follow. */
const mappedPrefix = "::ffff:";

/**
 * Reads an address of an object as kube-proxy does: the API server takes zeros before the numbers of IPv4, which are decimal all the
 * same, and IPv4 addresses that are written as IPv6.
 *
 * @returns the address as `canonicalAddress` writes it; undefined if the text is none
 */
export function writtenAddress(text: string): string | undefined {
  const address = canonicalAddress(text) ?? canonicalAddress(withoutZeros(text));
  if (address?.startsWith(mappedPrefix) !== true) return address;
  const [high, low, more] = address.slice(mappedPrefix.length).split(":");
  if (high === undefined || low === undefined || more !== undefined) return address;
  // Faster than by way of a range, as users decide how many endpoints there are.
  const [first, second] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [first >> 8, first & 255, second >> 8, second & 255].join(".");
}

/** Reads a range of an object, or an address alone, as {@link writtenAddress} does. */
export function writtenCidr(text: string): Cidr | undefined {
  const cidr = parseCidr(withoutZeros(text));
  const isMapped = (address: bigint): boolean => address >> 32n === mapped.number;
  if (!cidr || !isMapped(cidr.first) || !isMapped(cidr.last)) return cidr;
  const address = addressText(cidr.first & 0xffff_ffffn, 4);
  const length = Number(cidr.text.split("/")[1]) - mapped.bits;
  return parseCidr(`${address}/${length}`);
}

/** Zeros before the groups of IPv6 mean nothing either. */
function withoutZeros(text: string): string {
  return text.replace(/(^|[./:])0+(?=\d)/g, "$1");
}
