import { CloudError } from "@kip/cloud";
import { contains, parseCidr, type Cidr, type IpFamily } from "@kip/network-view";

/** Whether two CIDRs overlap. */
export function cidrsOverlap(a: string, b: string): boolean {
  const [one, two] = [readCidr(a), readCidr(b)];
  return contains(one, two) || contains(two, one);
}

/** Parses a CIDR, or a single address. @throws {CloudError} `CLOUD_INVALID_REQUEST` if it is neither */
export function readCidr(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr) return cidr;
  throw new CloudError("CLOUD_INVALID_REQUEST", `Cannot use range "${text}": it is no CIDR`, {
    remedy: "Give a network such as 198.18.0.0/15",
  });
}

/** The CIDRs and addresses of one family. */
export function ofFamily(list: readonly string[], family: IpFamily): readonly string[] {
  return list.filter((text) => parseCidr(text)?.family === family);
}
