import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { isSystemError, runCommand, CommandError } from "@kip/base";
import { RuntimeError } from "../errors.ts";
import {
  allowIpv6Forwarding,
  innerIpv6Commands,
  isIpv6Network,
  openToIpv6,
  outerIpv6Commands,
  type PodIpv6,
} from "./pod-ipv6.ts";

/** The network configuration of a pod and its cell. */
export interface PodNetwork {
  readonly podIp: string;
  /** The cell's interface for the pod's traffic. */
  readonly hostInterface: string;
  /** Name of the cell's end of the pod's cable. */
  readonly cable: string;
  /** MTU, the same as that of the cell's interface. */
  readonly mtu: number;
  readonly ipv6?: PodIpv6 | undefined;
}

/** Next hop of pods. No machine has this address. It only represents the other end of the cable. */
const gateway = "169.254.1.1";
/** A locally administered address. A cable only has two ends, so the address need not be unique elsewhere. */
const cableMac = "02:6b:69:70:00:01";
const podMac = "02:6b:69:70:00:02";

/** Name of the cell's end of a sandbox's cable, at most 15 characters, the kernel's limit. */
export function cableName(sandbox: string): string {
  return `kip-${sandbox}`.slice(0, 15);
}

/** MTU of a new cable. */
const defaultMtu = 1500;

/** `ip` commands for the inside of a new network namespace that do not depend on the pod. `homePid` is a process outside. */
export function innerPreparation(cable: string, homePid: number): readonly string[] {
  return [
    "link set lo up",
    `link add name eth0 mtu ${defaultMtu} address ${podMac} type veth peer name ${cable} mtu ${defaultMtu} address ${cableMac} netns ${homePid}`,
    "link set eth0 up",
    // A fixed neighbour: the first packet does not wait for ARP, and a pod cannot be redirected to another neighbour.
    `neighbour add ${gateway} lladdr ${cableMac} dev eth0 nud permanent`,
    `route add ${gateway} dev eth0 scope link`,
    `route add default via ${gateway} dev eth0`,
  ];
}

/** `ip` commands for the inside that configure the namespace for the pod. */
export function innerCommands({ podIp, mtu, ipv6 }: PodNetwork): readonly string[] {
  const size = mtu === defaultMtu ? [] : [`link set eth0 mtu ${mtu}`];
  const second = ipv6 ? innerIpv6Commands(ipv6, cableMac) : [];
  return [...size, `address add ${podIp}/32 dev eth0`, ...second];
}

/** `ip` commands for the cell's own namespace that do not depend on the pod. */
export function outerPreparation(cable: string): readonly string[] {
  return [`link set ${cable} up`];
}

/** `ip` commands for the cell's own namespace that route the pod's traffic. */
export function outerCommands(network: PodNetwork): readonly string[] {
  const { podIp, hostInterface, cable, mtu, ipv6 } = network;
  return [
    ...(mtu === defaultMtu ? [] : [`link set ${cable} mtu ${mtu}`]),
    `neighbour replace ${podIp} lladdr ${podMac} dev ${cable} nud permanent`,
    `route replace ${podIp}/32 dev ${cable} scope link`,
    // Makes the cell answer for just this address on its link. The interface's own address does not change.
    `neighbour replace proxy ${podIp} dev ${hostInterface}`,
    ...(ipv6 ? outerIpv6Commands(ipv6, { hostInterface, cable, podMac }) : []),
  ];
}

/** Reverts {@link outerCommands}. Removes the cable, and with it the pod's end. */
export function removeCommands(network: PodNetwork): string {
  return `neighbour del proxy ${network.podIp} dev ${network.hostInterface}\nlink del ${network.cable}\n`;
}

/** Makes the cell forward packets to a pod through one of its interfaces. The cable accepts IPv6 if the pod has it. */
export function allowForwarding({ hostInterface, cable, ipv6 }: PodNetwork): void {
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
  // The kernel delays proxy answers by up to 0.8 s, in case the real owner answers. Here there is none.
  writeFileSync(`/proc/sys/net/ipv4/neigh/${hostInterface}/proxy_delay`, "0");
  if (!ipv6) return;
  openToIpv6(cable);
  allowIpv6Forwarding(ipv6, hostInterface);
}

/** Removes a pod's cable. Parts that are already gone do not matter. */
export async function disconnectCable(network: PodNetwork): Promise<void> {
  // With -force, ip continues after a failed line, and exits with 1.
  await runCommand("/usr/sbin/ip", ["-force", "-batch", "-"], {
    input: removeCommands(network),
  }).catch((error: unknown) => {
    if (!CommandError.is(error, "COMMAND_FAILED")) throw error;
  });
}

/** @throws {RuntimeError} `POD_NETWORK_INVALID` */
export function describeNetwork(
  sandbox: string,
  podIp: string,
  options: {
    readonly hostInterface?: string | undefined;
    readonly ipv6?: PodIpv6 | undefined;
  },
): PodNetwork {
  const { hostInterface, ipv6 } = options;
  if (!isIpv4(podIp)) throw invalid(`"${podIp}" is not an IPv4 address`);
  if (ipv6 && !isIpv6Network(ipv6)) throw invalid("its IPv6 addresses are not addresses");
  const name = hostInterface ?? mainInterface();
  const mtu = Number(readNow(`/sys/class/net/${name}/mtu`) ?? 0);
  if (!(mtu > 0)) throw invalid(`there is no network interface "${name}"`);
  return { podIp, hostInterface: name, cable: cableName(sandbox), mtu, ipv6 };
}

/** Removes a cable by name, if it exists. */
export async function removeCable(cable: string): Promise<void> {
  if (existsSync(`/sys/class/net/${cable}`))
    await runCommand("/usr/sbin/ip", ["link", "del", cable]);
}

/** The interface of the default route with the lowest metric, or the first one with an address. */
export function mainInterface(): string {
  const table = readNow("/proc/net/route") ?? "";
  const found = defaultRouteInterface(table);
  if (found !== undefined) return found;
  for (const [name, addresses = []] of Object.entries(networkInterfaces())) {
    if (addresses.some((address) => !address.internal && address.family === "IPv4")) return name;
  }
  throw invalid("this machine has no network interface with an address");
}

/** Parses the kernel's IPv4 route table (proc_net_route(5)): interface, destination, ..., metric, mask. */
export function defaultRouteInterface(table: string): string | undefined {
  const routes = table
    .split("\n")
    .slice(1)
    .map((line) => line.split("\t").map((field) => field.trim()))
    .filter((fields) => fields[1] === "00000000" && fields[7] === "00000000");
  const least = Math.min(...routes.map((fields) => Number(fields[6])));
  return routes.find((fields) => Number(fields[6]) === least)?.[0];
}

function isIpv4(text: string): boolean {
  return (
    /^(\d{1,3}\.){3}\d{1,3}$/.test(text) && text.split(".").every((part) => Number(part) < 256)
  );
}

/** Synchronous, because the kernel's files are in memory and the thread pool would take longer. */
function readNow(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
}

function invalid(reason: string): RuntimeError {
  return new RuntimeError("POD_NETWORK_INVALID", `Cannot set up the pod's network: ${reason}`, {
    remedy: "Give the pod an IPv4 address, and the cell a network interface.",
  });
}
