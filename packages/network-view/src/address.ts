import { isIPv4, isIPv6 } from "node:net";

/** The number of an IP version. */
export type IpFamily = 4 | 6;

/**
 * The one way in which an address is written: IPv4 without leading zeros, IPv6 as RFC 5952 says.
 *
 * @returns undefined if the text is not an address without a zone
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  if (text.includes("%") || !isIPv6(text)) return undefined;
  const { hostname } = new URL(`http://[${text}]/`);
  return hostname.slice(1, -1);
}

/** The family of an address that {@link canonicalAddress} has given. */
export function ipFamily(address: string): IpFamily {
  return address.includes(":") ? 6 : 4;
}

/** A range of addresses with a common prefix. */
export interface Cidr {
  readonly family: IpFamily;
  readonly first: bigint;
  readonly last: bigint;
  /** As `address/length`; the bits behind the prefix are zero. */
  readonly text: string;
}

/**
 * Reads `address/length`, or an address alone. Bits behind the prefix are cleared, as the API server once took them.
 *
 * @returns undefined if the text is neither
 */
export function parseCidr(text: string): Cidr | undefined {
  const [prefix = "", length, more] = text.split("/", 3);
  const address = canonicalAddress(prefix);
  if (address === undefined || more !== undefined) return undefined;
  const family = ipFamily(address);
  const bits = family === 4 ? 32 : 128;
  const count = length === undefined ? bits : readLength(length, bits);
  if (count === undefined) return undefined;
  const hostBits = BigInt(bits - count);
  const first = (addressNumber(address) >> hostBits) << hostBits;
  const last = first | ((1n << hostBits) - 1n);
  return { family, first, last, text: `${addressText(first, family)}/${count}` };
}

/** Whether a range holds an address or another range. */
export function contains(outer: Cidr, inner: Cidr): boolean {
  return outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last;
}

/** The ranges that no other one holds, in the order of their addresses. Two CIDRs never overlap in part. */
export function outermost(ranges: readonly Cidr[]): readonly Cidr[] {
  const sorted = [...ranges].sort(
    (a, b) => a.family - b.family || compare(a.first, b.first) || compare(b.last, a.last),
  );
  const result: Cidr[] = [];
  for (const range of sorted) {
    const before = result.at(-1);
    if (before === undefined || !contains(before, range)) result.push(range);
  }
  return result;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : Number(a > b);
}

function readLength(text: string, most: number): number | undefined {
  if (!/^\d{1,3}$/.test(text)) return undefined;
  const count = Number(text);
  return count <= most ? count : undefined;
}

/** The number that an address stands for, the first byte highest. */
export function addressNumber(address: string): bigint {
  if (ipFamily(address) === 4)
    return address.split(".").reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  return groups(address).reduce((sum, group) => sum * 65_536n + BigInt(group), 0n);
}

/** The eight groups of a canonical IPv6 address, which never ends in dotted decimals. */
function groups(address: string): readonly number[] {
  const [head = "", tail] = address.split("::");
  const read = (text: string): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const [before, after] = [read(head), read(tail ?? "")];
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** The canonical text of an address: the reverse of {@link addressNumber}. */
export function addressText(value: bigint, family: IpFamily): string {
  if (family === 4)
    return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join(".");
  const parts = [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n];
  const text = parts.map((shift) => ((value >> shift) & 65_535n).toString(16)).join(":");
  return canonicalAddress(text) ?? text;
}
