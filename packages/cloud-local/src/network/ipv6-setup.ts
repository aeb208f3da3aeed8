import { readFile } from "node:fs/promises";
import { isSystemError } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { bridgeDevice, hostLink, uplinkDevice } from "./device-names.ts";
import type { Ipv6Plan } from "./ipv6-plan.ts";
import type { MachinePort } from "./machine-port.ts";

/** MAC address of the bridge, which is the gateway. */
export const gatewayMac = "02:6b:69:70:00:02";
/** MAC address of the host's end of its link, if IPv6 is used. */
const hostMac = "02:6b:69:70:00:01";

/**
 * Checks that the host can use IPv6.
 *
 * @param folder the kernel's IPv6 settings
 * @throws {CloudError} `CLOUD_INVALID_REQUEST`
 */
export async function requireIpv6(
  { range }: Ipv6Plan,
  folder = "/proc/sys/net/ipv6",
): Promise<void> {
  const remedy = (first: string): string => `${first}, or give a range of IPv4 alone`;
  try {
    const text = await readFile(`${folder}/conf/all/disable_ipv6`, "utf8");
    if (text.trim() === "0") return;
    throw cannotUse(range, "IPv6 is switched off on this computer", {
      remedy: remedy("Run sysctl -w net.ipv6.conf.all.disable_ipv6=0"),
    });
  } catch (error) {
    if (!isSystemError(error, "ENOENT")) throw error;
    throw cannotUse(range, "this computer's kernel has no IPv6", {
      remedy: remedy("Start it without ipv6.disable=1"),
    });
  }
}

function cannotUse(
  range: string,
  reason: string,
  options: { readonly remedy: string },
): CloudError {
  const message = `Cannot use range "${range}": ${reason}`;
  return new CloudError("CLOUD_INVALID_REQUEST", message, options);
}

/**
 * `ip` commands for the host: its address, and routes to machines and Services. Neighbours are fixed, so nothing waits for
 * neighbour discovery or duplicate address detection.
 */
export function hostLines(
  { host, gateway, range }: Ipv6Plan,
  device: string,
  serviceRanges: readonly string[],
): readonly string[] {
  const route = `via ${gateway} dev ${device} src ${host}`;
  return [
    `link set ${device} address ${hostMac}`,
    `addr replace ${host}/128 dev ${device} nodad`,
    `neighbour replace ${gateway} lladdr ${gatewayMac} dev ${device} nud permanent`,
    `route replace ${gateway}/128 dev ${device}`,
    ...[range, ...serviceRanges].map((to) => `route replace ${to} ${route}`),
  ];
}

/** `ip` commands for the namespace. */
export function namespaceLines({ host, gateway }: Ipv6Plan): readonly string[] {
  return [
    `addr replace ${gateway}/128 dev ${bridgeDevice} nodad`,
    ...neighbourLines(host, hostMac),
    // Packets without another route go to this device. The rules refuse them at once and let nothing through to it.
    `route replace ::/0 dev ${hostLink} metric 65535`,
  ];
}

/**
 * `ip` commands for the namespace, once slirp4netns is running. Its addresses are fixed. Because the kernel forwards, it
 * ignores router advertisements.
 */
export const uplinkLines = [
  `addr replace fd00::100/64 dev ${uplinkDevice} nodad`,
  `route replace ::/0 via fd00::2 dev ${uplinkDevice} metric 1024`,
] as const;

/** Settings for the namespace's sysctl. */
export const namespaceSettings = [
  "net.ipv6.conf.all.disable_ipv6=0",
  "net.ipv6.conf.default.disable_ipv6=0",
  "net.ipv6.conf.all.forwarding=1",
  "net.ipv6.icmp.ratelimit=0",
  "net.bridge.bridge-nf-call-ip6tables=0",
] as const;

/** `ip` commands for the namespace: routes to a machine and its pod. May be repeated. */
export function machineLines({ ipv6Addresses, mac }: MachinePort): readonly string[] {
  return ipv6Addresses.flatMap((address) => neighbourLines(address, mac));
}

/** Reverts {@link machineLines}. May be repeated, because it first adds what is missing. */
export function removalLines(port: MachinePort): readonly string[] {
  return [
    ...machineLines(port),
    ...port.ipv6Addresses.flatMap((address) => [
      `route del ${address}/128 dev ${bridgeDevice}`,
      `neighbour del ${address} dev ${bridgeDevice}`,
    ]),
  ];
}

function neighbourLines(address: string, mac: string): readonly string[] {
  return [
    `neighbour replace ${address} lladdr ${mac} dev ${bridgeDevice} nud permanent`,
    `route replace ${address}/128 dev ${bridgeDevice}`,
  ];
}
