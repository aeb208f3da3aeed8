import { OptionError, type OptionValues } from "@kip/base";

const form = /^(\d{1,3}\.\d{1,3}\.\d{1,3})\.0\/(\d{1,2})$/;

/** Addresses of Services, an IPv4 CIDR. @throws {OptionError} `OPTION_INVALID` */
export function serviceRange(options: OptionValues): string {
  const text = options.required("service-range");
  const [, octets = "", prefix] = form.exec(text) ?? [];
  const isAddress = octets.split(".").every((octet) => octet !== "" && Number(octet) <= 255);
  if (isAddress && Number(prefix) >= 12 && Number(prefix) <= 24) return text;
  throw new OptionError("OPTION_INVALID", `Cannot use --service-range ${text}: it is not a range`, {
    remedy: "Give an IPv4 network of /12 to /24 such as 10.96.0.0/16",
  });
}

/** The tenth of them, as in clusters of kubeadm: the Service `kube-system/kube-dns`. @throws {OptionError} `OPTION_INVALID` */
export function dnsService(options: OptionValues): string {
  return serviceRange(options).replace(/0\/\d+$/, "10");
}
