import type { InstanceAddresses } from "../instance-data.ts";

const names = {
  public_ipv4: "publicIpv4",
  private_ipv4: "privateIpv4",
  public_ipv6: "publicIpv6",
  private_ipv6: "privateIpv6",
} as const satisfies Record<string, keyof InstanceAddresses>;

/**
 * Replaces the names `$private_ipv4`, `$public_ipv4`, `$private_ipv6` and `$public_ipv6` in a text by the machine's addresses.
 * If the machine does not have an address, the name is replaced by nothing. After a backslash, the name is kept and the
 * backslash removed.
 */
export function substituteAddresses(text: string, addresses: InstanceAddresses): string {
  return text.replaceAll(
    /(\\?)\$(public_ipv4|private_ipv4|public_ipv6|private_ipv6)/g,
    (_, backslash: string, name: keyof typeof names) =>
      backslash === "" ? (addresses[names[name]] ?? "") : `$${name}`,
  );
}
