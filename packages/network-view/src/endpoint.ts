import { canonicalAddress, ipFamily, type IpFamily } from "./address.ts";

/** Where packets of a Service go: an address and a port. */
export interface Endpoint {
  readonly family: IpFamily;
  readonly address: string;
  /** 1 to 65535. */
  readonly port: number;
}

/** As `10.0.0.1:8080` or `[fd00::1]:8080`. */
export function endpointText(address: string, port: number): string {
  return ipFamily(address) === 4 ? `${address}:${port}` : `[${address}]:${port}`;
}

/** The IP version of an address, a CIDR or an endpoint as {@link endpointText} writes it: only those of IPv4 have fewer than two colons. */
export function textFamily(text: string): IpFamily {
  return text.indexOf(":") === text.lastIndexOf(":") ? 4 : 6;
}

/**
 * Reads what {@link endpointText} has written.
 *
 * @returns undefined if the text is something else
 */
export function parseEndpoint(text: string): Endpoint | undefined {
  const colon = text.lastIndexOf(":");
  const head = text.slice(0, colon);
  const isBracketed = head.startsWith("[") && head.endsWith("]");
  const address = canonicalAddress(isBracketed ? head.slice(1, -1) : head);
  if (colon < 1 || address === undefined || (ipFamily(address) === 6) !== isBracketed)
    return undefined;
  const tail = text.slice(colon + 1);
  const port = /^\d{1,5}$/.test(tail) ? Number(tail) : 0;
  if (port < 1 || port > 65_535) return undefined;
  return { family: ipFamily(address), address, port };
}
