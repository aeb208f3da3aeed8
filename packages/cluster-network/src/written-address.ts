import { addressText, canonicalAddress, parseCidr, type Cidr } from "@kip/network-view";

/** The first 96 bits of an IPv4-mapped IPv6 address. */
const mapped = { number: 0xffffn, bits: 96 } as const;

/** The prefix of such an address in its canonical form. Two groups follow. */
const mappedPrefix = "::ffff:";

/**
 * Parses an address of an API object as kube-proxy does. The API server accepts leading zeros in IPv4 addresses (the numbers are still
 * decimal), and IPv4-mapped IPv6 addresses.
 *
 * @returns the address in the form of `canonicalAddress`. Undefined if it is not a valid address
 */
export function writtenAddress(text: string): string | undefined {
  const address = canonicalAddress(text) ?? canonicalAddress(withoutZeros(text));
  if (address?.startsWith(mappedPrefix) !== true) return address;
  const [high, low, more] = address.slice(mappedPrefix.length).split(":");
  if (high === undefined || low === undefined || more !== undefined) return address;
  // This is faster than parsing a CIDR. Users decide how many endpoints there are.
  const [first, second] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [first >> 8, first & 255, second >> 8, second & 255].join(".");
}

/** Parses a CIDR of an API object, or a single address, as {@link writtenAddress} does. */
export function writtenCidr(text: string): Cidr | undefined {
  const cidr = parseCidr(withoutZeros(text));
  const isMapped = (address: bigint): boolean => address >> 32n === mapped.number;
  if (!cidr || !isMapped(cidr.first) || !isMapped(cidr.last)) return cidr;
  const address = addressText(cidr.first & 0xffff_ffffn, 4);
  const length = Number(cidr.text.split("/")[1]) - mapped.bits;
  return parseCidr(`${address}/${length}`);
}

/** Removes leading zeros of numbers. In the groups of IPv6 they have no meaning either. */
function withoutZeros(text: string): string {
  return text.replace(/(^|[./:])0+(?=\d)/g, "$1");
}
