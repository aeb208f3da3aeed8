import { runCommand, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import { hostAddresses } from "../host/host-facts.ts";
import { findNamespaceMembers, signalProcess } from "../host/processes.ts";
import { planAddresses, type AddressPlan } from "./address-plan.ts";
import { findCollision } from "./collision.ts";
import { bridgeDevice as bridge, hostLink } from "./device-names.ts";
import { bridgeRules, closePort, openPort, replaceClosed, routingRules } from "./filter-rules.ts";
import { portOfDevice, type MachinePort } from "./machine-port.ts";
import { namespaceOf, type Namespace } from "./namespace.ts";
import { hasUplinkProgram, startUplink, stopUplink } from "./uplink.ts";

/** Options of {@link LocalNetwork}. */
export interface LocalNetworkOptions {
  readonly name: string;
  readonly range: string;
  readonly internet: boolean | "auto";
  /** TCP ports of the host that machines reach. */
  readonly hostPorts: readonly number[];
  /** TCP and UDP ports of machines' own addresses that only the host reaches. */
  readonly managementPorts: readonly number[];
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
 * On the host there is the veth's end and the route that its address brings; nothing else. Who may talk
 * to whom is decided by the bridge: {@link bridgeRules}.
 */
export class LocalNetwork {
  readonly plan: AddressPlan;
  readonly namespace: Namespace;
  readonly #options: LocalNetworkOptions;
  readonly #hostDevice: string;
  #saidNoInternet = false;
  /** The host's addresses as the rules have them. */
  #closedHost: string | undefined;

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
    const internet = await this.hasInternet();
    await this.#configureNamespace(internet);
    const address = `${this.plan.host}/${this.plan.prefixLength}`;
    await ipBatch(
      (input) => runCommand("ip", ["-batch", "-"], { input }),
      [
        `link set ${this.#hostDevice} addrgenmode none`, // no IPv6 address: nobody speaks it here
        `addr replace ${address} dev ${this.#hostDevice}`,
        `link set ${this.#hostDevice} up`,
      ],
    );
    if (internet) await startUplink(this.namespace, this.plan);
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

  /** Of the machines; none if nobody could answer. */
  async nameservers(): Promise<readonly string[]> {
    return (await this.hasInternet()) ? [this.plan.gateway] : [];
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

  /**
   * Makes the device of a machine, puts it on the bridge and lets its own addresses, and no others, pass.
   * Idempotent.
   *
   * @param device as `tapOf` names it
   */
  async addTap(device: string): Promise<void> {
    const port = this.#portOf(device);
    await Promise.all([
      this.#replaceDevice(device),
      this.#nft(openPort(port)),
      this.#closeHostAddresses(),
    ]);
  }

  /** Removes the device of a machine; nothing happens if it is not there. */
  async removeTap(device: string): Promise<void> {
    if (!(await this.namespace.exists())) return;
    const devices = await this.#namespaceDevices();
    if (devices.has(device)) await this.#inNamespace([`link delete ${device}`]);
    // Last: an entry without its device opens nothing, as the device's name and its addresses go together.
    await this.#nft(closePort(this.#portOf(device)));
  }

  async #replaceDevice(device: string): Promise<void> {
    const devices = await this.#namespaceDevices();
    await this.#inNamespace([
      ...(devices.has(device) ? [`link delete ${device}`] : []),
      `tuntap add dev ${device} mode tap`,
      `link set ${device} addrgenmode none`, // nobody speaks IPv6 here
      `link set ${device} master ${bridge} up`,
    ]);
  }

  #portOf(device: string): MachinePort {
    const port = portOfDevice(this.plan, device);
    if (!port) throw new TypeError(`"${device}" is no machine's device`);
    return port;
  }

  async #configureNamespace(internet: boolean): Promise<void> {
    const devices = await this.#namespaceDevices();
    // A fixed hardware address: else the bridge would take over that of each new port, and the
    // machines would lose their gateway until they ask again.
    const create = `link add ${bridge} address 02:6b:69:70:00:02 type bridge`;
    // Before anything can pass; for machines that run, too: their rules may be of an older version.
    const ports = [...devices].map((device) => portOfDevice(this.plan, device));
    const open = ports.map((port) => (port ? openPort(port) : ""));
    const addresses = hostAddresses();
    const rules = { ...this.#options, plan: this.plan, hostAddresses: addresses, internet };
    await this.#nft([bridgeRules(rules), ...open, routingRules(rules)].join("\n"));
    this.#closedHost = addresses.join();
    await this.#inNamespace([
      ...(devices.has(bridge) ? [] : [create]),
      `link set ${bridge} addrgenmode none`,
      `link set ${hostLink} addrgenmode none`,
      `link set ${hostLink} master ${bridge} up`,
      `addr replace ${this.plan.gateway}/${this.plan.prefixLength} dev ${bridge}`,
      `link set ${bridge} up`,
    ]);
    await this.namespace.run("sysctl", ["-qw", "net.ipv4.ip_forward=1"]);
  }

  /** The host's addresses come and go with its networks; each start of a machine looks again. */
  async #closeHostAddresses(): Promise<void> {
    const addresses = hostAddresses();
    if (this.#closedHost === addresses.join()) return;
    await this.#nft(replaceClosed(this.plan, addresses));
    this.#closedHost = addresses.join();
  }

  async #nft(rules: string): Promise<void> {
    await this.namespace.run("nft", ["-f", "-"], rules);
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
