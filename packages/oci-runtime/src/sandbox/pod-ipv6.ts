import { existsSync, writeFileSync } from "node:fs";
import { isIPv6 } from "node:net";
import { runCommand } from "@kip/base";
import { keepFirstRouter } from "./router-guard.ts";

/** The IPv6 configuration of a cell, in a network that leaves this to the cell. */
export interface CellIpv6 {
  /** The cell's address, which it sets itself. */
  readonly machineIp: string;
  /**
   * Next hop of all packets and its hardware address, which is not looked up. @default the router that the network advertises
   */
  readonly gateway?: { readonly address: string; readonly mac: string } | undefined;
}

/** {@link CellIpv6} with the pod's address. */
export interface PodIpv6 extends CellIpv6 {
  readonly podIp: string;
}

/** Next hop of pods. It only represents the other end of the cable. */
const podGateway = "fe80::1";

/** Whether all parts are valid, because they become words of `ip` commands. */
export function isIpv6Network({ podIp, machineIp, gateway }: PodIpv6): boolean {
  const addresses = [podIp, machineIp, ...(gateway ? [gateway.address] : [])];
  const areAddresses = addresses.every((text) => isIPv6(text) && !text.includes("%"));
  return areAddresses && (!gateway || /^[\da-f]{2}(:[\da-f]{2}){5}$/.test(gateway.mac));
}

/**
 * `ip` commands for the inside of a pod's namespace. Skips duplicate address detection, which takes a second, and has fixed
 * neighbours.
 *
 * @param mac address of the cell's end of the cable
 */
export function innerIpv6Commands({ podIp }: PodIpv6, mac: string): readonly string[] {
  return [
    `address add ${podIp}/128 dev eth0 nodad`,
    `neighbour replace ${podGateway} lladdr ${mac} dev eth0 nud permanent`,
    `route replace ::/0 via ${podGateway} dev eth0`,
  ];
}

/** `ip` commands for the cell's own namespace: its address and the pod's. May be repeated. */
export function outerIpv6Commands(
  ipv6: PodIpv6,
  { hostInterface, cable, podMac }: Readonly<Record<"hostInterface" | "cable" | "podMac", string>>,
): readonly string[] {
  return [
    ...cellIpv6Commands(ipv6, hostInterface),
    `neighbour replace ${ipv6.podIp} lladdr ${podMac} dev ${cable} nud permanent`,
    `route replace ${ipv6.podIp}/128 dev ${cable}`,
  ];
}

function cellIpv6Commands({ machineIp, gateway }: CellIpv6, device: string): readonly string[] {
  const own = `address replace ${machineIp}/128 dev ${device} nodad`;
  if (!gateway) return [own];
  return [
    own,
    `neighbour replace ${gateway.address} lladdr ${gateway.mac} dev ${device} nud permanent`,
    `route replace ${gateway.address}/128 dev ${device}`,
    `route replace ::/0 via ${gateway.address} dev ${device}`,
  ];
}

/**
 * Makes the cell's end of a new cable refuse IPv6 until the pod's addresses are known, and always ignore routers that the pod
 * advertises. Otherwise a process with `NET_RAW`, which containers have by default, could divert all of the cell's own packets.
 */
export function closeToIpv6(cable: string): void {
  const settings = settingsOf(cable);
  if (!existsSync(settings)) return; // the kernel has no IPv6
  writeFileSync(`${settings}/accept_ra`, "0");
  writeFileSync(`${settings}/disable_ipv6`, "1");
}

/** Makes the cell's end of a cable accept the pod's IPv6 packets. */
export function openToIpv6(cable: string): void {
  writeFileSync(`${settingsOf(cable)}/disable_ipv6`, "0");
}

function settingsOf(device: string): string {
  return `/proc/sys/net/ipv6/conf/${device}`;
}

/** Makes the cell forward packets to a pod. */
export function allowIpv6Forwarding({ gateway }: CellIpv6, device: string): void {
  // When a machine starts forwarding, it removes the advertised router and ignores further ones, unless this setting allows
  // them.
  if (!gateway) writeFileSync(`${settingsOf(device)}/accept_ra`, "2");
  writeFileSync("/proc/sys/net/ipv6/conf/all/forwarding", "1");
}

/**
 * Sets the cell's address, for a pod that uses the cell's own network. May be repeated. @throws {CommandError} `COMMAND_FAILED`
 */
export async function setUpCellIpv6(ipv6: CellIpv6, device: string): Promise<void> {
  if (!ipv6.gateway) await keepFirstRouter(device);
  const input = cellIpv6Commands(ipv6, device).map((line) => `${line}\n`);
  await runCommand("/usr/sbin/ip", ["-batch", "-"], { input: input.join("") });
}
