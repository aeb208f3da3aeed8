import type { InstanceAddresses } from "../instance-data.ts";

const names = {
  public_ipv4: "publicIpv4",
  private_ipv4: "privateIpv4",
  public_ipv6: "publicIpv6",
  private_ipv6: "privateIpv6",
} as const satisfies Record<string, keyof InstanceAddresses>;

/**
 * Puts a machine's addresses where a text names them: `$private_ipv4`, `$public_ipv4`, `$private_ipv6` and `$public_ipv6`.
 * An address that the machine does not have is empty. A name behind a backslash stays as it is, without the backslash.
 */
export function substituteAddresses(text: string, addresses: InstanceAddresses): string {
  return text.replaceAll(
    /(\\?)\$(public_ipv4|private_ipv4|public_ipv6|private_ipv6)/g,
    (_, backslash: string, name: keyof typeof names) =>
      backslash === "" ? (addresses[names[name]] ?? "") : `$${name}`,
  );
}
