import { runCommand, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { findNamespaceMembers, signalProcess } from "../host/processes.ts";
import { planAddresses, type AddressPlan } from "./address-plan.ts";
import { findCollision } from "./collision.ts";
import { namespaceOf, type Namespace } from "./namespace.ts";
import { hasUplinkProgram, startUplink, stopUplink, uplinkDevice } from "./uplink.ts";

/** Name of the bridge inside the namespace that all machines are on. */
const bridge = "cells";
/** Name of the namespace's end of the link to the host. */
const hostLink = "host";

/** Options of {@link LocalNetwork}. */
export interface LocalNetworkOptions {
  readonly name: string;
  readonly range: string;
  readonly internet: boolean | "auto";
  readonly logger: Logger;
}

/**
 * The network of the local cloud: a namespace with one bridge, one veth pair to the host, one tap per
 * machine and one userspace process that leads out.
 *
 * ```
 *   host ── <name>0 (.0.1) ══ host ─┐
 *                                   ├─ bridge "cells" (.0.2) ── tap ── machine
 *   internet ── slirp4netns ── uplink (masqueraded)     └────── tap ── machine
 * ```
 *
 * On the host there is the veth's end and the route that its address brings; nothing else.
 */
export class LocalNetwork {
  readonly plan: AddressPlan;
  readonly namespace: Namespace;
  readonly #options: LocalNetworkOptions;
  readonly #hostDevice: string;
  #saidNoInternet = false;

  constructor(options: LocalNetworkOptions) {
    this.#options = options;
    this.plan = planAddresses(options.range);
    this.namespace = namespaceOf(options.name);
    this.#hostDevice = `${options.name}0`;
  }

  /** Makes what is missing. Callers hold the network lock. */
  async prepare(): Promise<void> {
    await this.#refuseCollision();
    await this.namespace.create();
    if (!(await this.#hasHostDevice())) {
      const peer = ["peer", "name", hostLink, "netns", this.namespace.file];
      await runCommand("ip", ["link", "add", this.#hostDevice, "type", "veth", ...peer]);
    }
    await this.#configureNamespace();
    const address = `${this.plan.host}/${this.plan.prefixLength}`;
    await ipBatch(
      (input) => runCommand("ip", ["-batch", "-"], { input }),
      [
        `link set ${this.#hostDevice} addrgenmode none`, // no IPv6 address: nobody speaks it here
        `addr replace ${address} dev ${this.#hostDevice}`,
        `link set ${this.#hostDevice} up`,
      ],
    );
    if (await this.hasInternet()) {
      await this.namespace.run("nft", ["-f", "-"], natRules(this.plan));
      await startUplink(this.namespace, this.plan);
    }
  }

  /** Whether machines are led out; says once in the log if they cannot be. */
  async hasInternet(): Promise<boolean> {
    if (this.#options.internet === false) return false;
    if (await hasUplinkProgram()) return true;
    const remedy = "Install the Debian package slirp4netns";
    if (this.#options.internet === true) {
      throw new CloudError(
        "CLOUD_INVALID_REQUEST",
        "Cannot connect machines to the internet: slirp4netns is not installed",
        { remedy },
      );
    }
    if (!this.#saidNoInternet)
      this.#options.logger.warn(
        "Machines do not reach the internet: slirp4netns is not installed",
        {
          remedy,
        },
      );
    this.#saidNoInternet = true;
    return false;
  }

  /** Removes all of it, and ends every process that is still in the namespace. */
  async remove(): Promise<void> {
    await stopUplink(this.namespace);
    if (await this.namespace.exists()) {
      for (const pid of await findNamespaceMembers(this.namespace.file))
        signalProcess(pid, "SIGKILL");
    }
    if (await this.#hasHostDevice()) await runCommand("ip", ["link", "delete", this.#hostDevice]);
    await this.namespace.remove();
  }

  /** Makes the device of a machine and puts it on the bridge. Idempotent. */
  async addTap(device: string): Promise<void> {
    await this.removeTap(device);
    await this.#inNamespace([
      `tuntap add dev ${device} mode tap`,
      `link set ${device} master ${bridge} up`,
    ]);
  }

  /** Removes the device of a machine; nothing happens if it is not there. */
  async removeTap(device: string): Promise<void> {
    if (!(await this.namespace.exists())) return;
    const devices = await this.#namespaceDevices();
    if (devices.has(device)) await this.#inNamespace([`link delete ${device}`]);
  }

  async #configureNamespace(): Promise<void> {
    const devices = await this.#namespaceDevices();
    // A fixed hardware address: else the bridge would take over that of each new port, and the
    // machines would lose their gateway until they ask again.
    const create = `link add ${bridge} address 02:6b:69:70:00:02 type bridge`;
    await this.#inNamespace([
      ...(devices.has(bridge) ? [] : [create]),
      `link set ${hostLink} master ${bridge} up`,
      `addr replace ${this.plan.gateway}/${this.plan.prefixLength} dev ${bridge}`,
      `link set ${bridge} up`,
    ]);
    await this.namespace.run("sysctl", ["-qw", "net.ipv4.ip_forward=1"]);
    await this.namespace.run("nft", ["-f", "-"], hostGuardRules(this.plan));
  }

  async #inNamespace(lines: readonly string[]): Promise<void> {
    await ipBatch((input) => this.namespace.run("ip", ["-batch", "-"], input), lines);
  }

  async #namespaceDevices(): Promise<ReadonlySet<string>> {
    return deviceNames((await this.namespace.run("ip", ["-o", "link"])).stdout);
  }

  async #hasHostDevice(): Promise<boolean> {
    return deviceNames((await runCommand("ip", ["-o", "link"])).stdout).has(this.#hostDevice);
  }

  async #refuseCollision(): Promise<void> {
    const routes = (await runCommand("ip", ["-o", "-4", "route", "show"])).stdout;
    const collision = await findCollision(routes, this.plan.range, this.#hostDevice);
    if (collision === undefined) return;
    throw new CloudError(
      "CLOUD_INVALID_REQUEST",
      `Cannot use range "${this.plan.range}" for the local cloud: this machine has the route "${collision}"`,
      { remedy: "Choose another range, for example 100.96.0.0/15" },
    );
  }
}

async function ipBatch(
  run: (input: string) => Promise<unknown>,
  lines: readonly string[],
): Promise<void> {
  await run(lines.map((line) => `${line}\n`).join(""));
}

/** Names in the output of `ip -o link`: "3: cells@if2: <...". */
function deviceNames(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(/^\d+: ([^:@]+)/gm)].map(([, name = ""]) => name));
}

/** Way out: masquerade behind the uplink, and the gateway's port 53 is the uplink's name server. */
function natRules(plan: AddressPlan): string {
  return `
add table ip kip
delete table ip kip
table ip kip {
  chain leave {
    type nat hook postrouting priority srcnat
    oifname "${uplinkDevice}" masquerade
  }
  chain resolve {
    type nat hook prerouting priority dstnat
    ip daddr ${plan.gateway} meta l4proto { tcp, udp } th dport 53 dnat to ${plan.uplinkDns}
  }
}
`;
}

/** A machine may talk to the host, but not through it: a host that forwards must not be its router. */
function hostGuardRules(plan: AddressPlan): string {
  return `
add table bridge kip
delete table bridge kip
table bridge kip {
  chain guard {
    type filter hook forward priority 0
    oifname "${hostLink}" ether type ip ip daddr != ${plan.host} drop
  }
}
`;
}
