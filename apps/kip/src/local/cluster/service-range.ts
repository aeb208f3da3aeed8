import { isIPv6 } from "node:net";
import { OptionError, type OptionValues } from "@kip/base";

const form = /^(\d{1,3}\.\d{1,3}\.\d{1,3})\.0\/(\d{1,2})$/;

/** Service ranges: a CIDR of IPv4, and optionally one of IPv6. @throws {OptionError} `OPTION_INVALID` */
export function serviceRanges(options: OptionValues): readonly string[] {
  const text = options.required("service-range");
  const [first = "", second, ...more] = text.split(",");
  const areRanges = isIpv4Range(first) && (second === undefined || isIpv6Range(second));
  if (areRanges && more.length === 0) return text.split(",");
  throw new OptionError("OPTION_INVALID", `Cannot use --service-range ${text}: it is not a range`, {
    remedy:
      "Give an IPv4 network of /12 to /24 such as 10.96.0.0/16, and perhaps an IPv6 one of /108 to /120 behind a comma",
  });
}

function isIpv4Range(text: string): boolean {
  const [, octets = "", prefix] = form.exec(text) ?? [];
  const isAddress = octets.split(".").every((octet) => octet !== "" && Number(octet) <= 255);
  return isAddress && Number(prefix) >= 12 && Number(prefix) <= 24;
}

function isIpv6Range(text: string): boolean {
  const [address = "", prefix = "", ...more] = text.split("/");
  const isPrefix = /^\d{3}$/.test(prefix) && Number(prefix) >= 108 && Number(prefix) <= 120;
  return isIPv6(address) && isPrefix && more.length === 0;
}

/**
 * The address of the Service `kube-system/kube-dns`: the tenth of the range, as in clusters of kubeadm. @throws {OptionError}
 * `OPTION_INVALID`
 */
export function dnsService(options: OptionValues): string {
  const [first = ""] = serviceRanges(options);
  return first.replace(/0\/\d+$/, "10");
}
