import { CloudError } from "@kip/cloud";
import { contains, parseCidr, type Cidr, type IpFamily } from "@kip/network-view";

/** Whether two CIDRs share an address. */
export function cidrsOverlap(a: string, b: string): boolean {
  const [one, two] = [readCidr(a), readCidr(b)];
  return contains(one, two) || contains(two, one);
}

/** Reads a CIDR, or an address as one. @throws {CloudError} `CLOUD_INVALID_REQUEST` if it is neither */
export function readCidr(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr) return cidr;
  throw new CloudError("CLOUD_INVALID_REQUEST", `Cannot use range "${text}": it is no CIDR`, {
    remedy: "Give a network such as 198.18.0.0/15",
  });
}

/** Those of the CIDRs and addresses that are of the family. */
export function ofFamily(list: readonly string[], family: IpFamily): readonly string[] {
  return list.filter((text) => parseCidr(text)?.family === family);
}
