import path from "node:path";
import { acquireFileLock, makeFolder, runCommand, signalProcess, type Logger } from "@kip/base";
import { CloudError } from "@kip/cloud";
import type { IpFamily } from "@kip/network-view";
import { findNamespaceMembers } from "../host/processes.ts";
import { SharedRun } from "../host/shared-run.ts";
import { planAddresses, type AddressPlan } from "./address-plan.ts";
import { findCollision, findOverlap } from "./collision.ts";
import { bridgeDevice as bridge, hostLink, uplinkDevice } from "./device-names.ts";
import { nameServerRules } from "./name-server-limits.ts";
import { bridgeRules, closePort, openPort, replaceClosed, routingRules } from "./filter-rules.ts";
import { ofFamily } from "./cidrs.ts";
import { ipv6Rules, replaceClosedIpv6 } from "./ipv6-rules.ts";
import {
  gatewayMac,
  hostLines,
  machineLines,
  namespaceLines,
  namespaceSettings,
  removalLines,
  requireIpv6,
  uplinkLines,
} from "./ipv6-setup.ts";
import { readLocalAddresses } from "./local-addresses.ts";
import { portOfDevice, type MachinePort } from "./machine-port.ts";
import { namespaceOf, runtimeRoot, type Namespace } from "./namespace.ts";
import { networkClaim, type NetworkClaim } from "./network-claim.ts";
import { hasUplinkProgram, isUplinkRunning, startUplink, stopUplink } from "./uplink.ts";

/** Options of {@link LocalNetwork}. */
export interface LocalNetworkOptions {
  readonly name: string;
  /** The state folder that owns the network. */
  readonly stateDir: string;
  readonly range: string;
  /** IPv6 range, /16 to /100. @default IPv4 only */
  readonly ipv6Range?: string | undefined;
  readonly internet: boolean | "auto";
  /** TCP ports of the host that machines can reach. */
  readonly hostPorts: readonly number[];
  /** TCP and UDP ports at machines' own addresses that only the host can reach. */
  readonly managementPorts: readonly number[];
  /** CIDRs of the cluster's Services. Connections to them that no rule routes are refused at once. */
  readonly serviceRanges: readonly string[];
  /** Whether the host reaches these ranges through the namespace. @default false */
  readonly hostServices?: boolean | undefined;
  /** Address in the namespace whose TCP port 80 machines can reach. @default none */
  readonly metadataAddress?: string | undefined;
  /** The ClusterIP of the cluster's DNS server. Queries to it are redirected to `plan.clusterDns`. @default none */
  readonly dnsService?: string | undefined;
  readonly logger: Logger;
}

/**
 * The network of the local cloud: a namespace with a bridge, a veth pair to the host, a tap per machine, and a userspace
 * process that connects it to the outside.
 *
 * ```
 *   host ── <name>0 (.0.1) ══ host ─┐
 *                                   ├─ bridge "cells" (.0.2) ── tap ── machine
 *   internet ── slirp4netns ── uplink (masqueraded)     └────── tap ── machine
 * ```
 *
 * The host only has the veth's other end, the route to its address range, and one to Services. The bridge decides which
 * machines may communicate: {@link bridgeRules}.
 */
export class LocalNetwork {
  readonly plan: AddressPlan;
  readonly namespace: Namespace;
  readonly #options: LocalNetworkOptions;
  readonly #hostDevice: string;
  #saidNoInternet = false;
  /** The host's addresses that this process last wrote to the rules. */
  #closedHost: string | undefined;
  readonly #closing: SharedRun;
  readonly #claim: NetworkClaim;

  constructor(options: LocalNetworkOptions) {
    this.#options = options;
    this.plan = planAddresses(options.range, options.ipv6Range);
    this.namespace = namespaceOf(options.name);
    this.#claim = networkClaim(path.dirname(this.namespace.file), options.stateDir);
    this.#hostDevice = `${options.name}0`;
    this.#closing = new SharedRun(async () => await this.#closeAddresses());
  }

  /**
   * Creates what is missing. Callers hold the network lock.
   *
   * @throws {CloudError} `CLOUD_INVALID_REQUEST` if another state folder has a network with this name, or the range collides
   * with a route of the host
   */
  async prepare(): Promise<void> {
    const { ipv6 } = this.plan;
    if (ipv6) await requireIpv6(ipv6);
    await this.#refuseCollision();
    await this.#takeNamespace();
    if (!(await this.#hasHostDevice())) {
      const peer = ["peer", "name", hostLink, "netns", this.namespace.file];
      await runCommand("ip", ["link", "add", this.#hostDevice, "type", "veth", ...peer]);
    }
    const internet = await this.hasInternet();
    await this.#configureNamespace(internet);
    const ranges = this.#options.hostServices === true ? this.#options.serviceRanges : [];
    const address = `${this.plan.host}/${this.plan.prefixLength}`;
    await ipBatch(
      (input) => runCommand("ip", ["-batch", "-"], { input }),
      [
        `link set ${this.#hostDevice} addrgenmode none`, // no link-local address, because nothing needs it
        `addr replace ${address} dev ${this.#hostDevice}`,
        `link set ${this.#hostDevice} up`,
        ...ofFamily(ranges, 4).map((range) => {
          const route = `via ${this.plan.gateway} dev ${this.#hostDevice} src ${this.plan.host}`;
          return `route replace ${range} ${route}`;
        }),
        ...(ipv6 ? hostLines(ipv6, this.#hostDevice, ofFamily(ranges, 6)) : []),
      ],
    );
    // Include addresses that the host got after the rules were written, possibly by a process that does not watch the network.
    await this.closeLocalAddresses();
    if (internet) await this.restoreUplink();
  }

  /**
   * Starts the uplink if it is not running and the network exists. True if it was started. Callers hold the network lock.
   *
   * @throws {CloudError} `CLOUD_UNAVAILABLE` if it does not start
   */
  async restoreUplink(): Promise<boolean> {
    if (!(await this.exists()) || (await this.hasUplink())) return false;
    await stopUplink(this.namespace); // one that has lost its device
    await startUplink(this.namespace, this.plan);
    if (this.plan.ipv6) await this.#inNamespace(uplinkLines);
    return true;
  }

  /** Whether the uplink is running. Its device exists exactly as long. */
  async hasUplink(): Promise<boolean> {
    return (
      (await isUplinkRunning(this.namespace)) && (await this.#namespaceDevices()).has(uplinkDevice)
    );
  }

  /**
   * Closes all present addresses of the host to machines, and opens its former ones. Does nothing if there is no network.
   *
   * @throws {CommandError} `COMMAND_FAILED`
   */
  async closeLocalAddresses(): Promise<void> {
    await this.#closing.run();
  }

  /** Whether machines have a connection to the outside. Logs once if that is not possible. */
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

  /** DNS servers of the machines. Empty without an uplink. */
  async nameservers(): Promise<readonly string[]> {
    return (await this.hasInternet()) ? [this.plan.gateway] : [];
  }

  /** See {@link LocalNetworkOptions}. */
  get managementPorts(): readonly number[] {
    return this.#options.managementPorts;
  }

  /** Whether machines get their user data from a metadata service. */
  get hasMetadata(): boolean {
    return this.#options.metadataAddress !== undefined;
  }

  /** Whether the network exists and belongs to this state folder. */
  async exists(): Promise<boolean> {
    return (await this.namespace.exists()) && (await this.#claim.otherHolder()) === undefined;
  }

  /**
   * Removes the whole network, and ends every process that is still in the namespace. Does nothing if it belongs to another
   * state folder.
   */
  async remove(): Promise<void> {
    if ((await this.#claim.otherHolder()) === undefined) await this.#removeAll();
  }

  async #removeAll(): Promise<void> {
    await stopUplink(this.namespace);
    if (await this.namespace.exists()) {
      for (const pid of await findNamespaceMembers(this.namespace.file))
        signalProcess(pid, "SIGKILL");
    }
    if (await this.#hasHostDevice()) await runCommand("ip", ["link", "delete", this.#hostDevice]);
    await this.namespace.remove();
  }

  /**
   * Creates a machine's device, adds it to the bridge and allows only packets from the machine's own addresses. Idempotent.
   *
   * @param device name from `tapOf`
   */
  async addTap(device: string): Promise<void> {
    const port = this.#portOf(device);
    await Promise.all([
      this.#replaceDevice(port),
      this.#nft(openPort(port)),
      this.closeLocalAddresses(),
    ]);
  }

  /** Removes a machine's device. Does nothing if it does not exist. */
  async removeTap(device: string): Promise<void> {
    if (!(await this.exists())) return;
    const devices = await this.#namespaceDevices();
    const port = this.#portOf(device);
    await this.#inNamespace([
      ...(devices.has(device) ? [`link delete ${device}`] : []),
      ...removalLines(port),
    ]);
    // The last step. An entry without its device has no effect, because the device's name and its addresses belong together.
    await this.#nft(closePort(port));
  }

  /** Creates the namespace and records its state folder. */
  async #takeNamespace(): Promise<void> {
    await makeFolder(path.dirname(this.namespace.file), 0o755, { recursive: true });
    await using _lock = await acquireFileLock(runtimeRoot); // state folders have separate locks
    const holder = await this.#claim.otherHolder();
    if (holder !== undefined) {
      if (await this.#claim.isInUse(holder)) throw heldBy(this.#options.name, holder);
      await this.#removeAll(); // its state folder was deleted, so nothing else will remove it
      await makeFolder(path.dirname(this.namespace.file), 0o755, { recursive: true });
    }
    await this.#claim.take();
    await this.namespace.create();
  }

  async #replaceDevice(port: MachinePort): Promise<void> {
    const { device } = port;
    const devices = await this.#namespaceDevices();
    await this.#inNamespace([
      ...(devices.has(device) ? [`link delete ${device}`] : []),
      `tuntap add dev ${device} mode tap`,
      `link set ${device} addrgenmode none`, // no link-local address, because nothing needs it
      `link set ${device} master ${bridge} up`,
      ...machineLines(port),
    ]);
  }

  #portOf(device: string): MachinePort {
    const port = portOfDevice(this.plan, device);
    if (!port) throw new TypeError(`"${device}" is not a machine's device`);
    return port;
  }

  async #configureNamespace(internet: boolean): Promise<void> {
    const devices = await this.#namespaceDevices();
    // A fixed MAC address. Otherwise the bridge would take the one of each new port, and the machines would lose their gateway
    // until they resolve it again.
    const create = `link add ${bridge} address ${gatewayMac} type bridge`;
    // Before any packet can pass. Also for running machines, whose rules may be from an older version.
    const ports = [...devices].map((device) => portOfDevice(this.plan, device));
    const open = ports.map((port) => (port ? openPort(port) : ""));
    const closed = await this.#readClosed();
    await this.#nft([this.#rules(closed, internet), ...open].join("\n"));
    this.#closedHost = JSON.stringify(closed);
    const { ipv6 } = this.plan;
    const { metadataAddress } = this.#options;
    if (ipv6) await this.namespace.run("sysctl", ["-qwe", ...namespaceSettings]);
    await this.#limitQuestions();
    await this.#inNamespace([
      "link set lo up", // the namespace's maker may have been killed before
      ...(devices.has(bridge) ? [] : [create]),
      `link set ${bridge} addrgenmode none`,
      `link set ${hostLink} addrgenmode none`,
      `link set ${hostLink} master ${bridge} up`,
      // The first address is the source of the namespace's own packets.
      `addr replace ${this.plan.gateway}/${this.plan.prefixLength} dev ${bridge}`,
      `addr replace ${this.plan.clusterDns}/${this.plan.prefixLength} dev ${bridge}`,
      `addr replace ${this.plan.relay}/${this.plan.prefixLength} dev ${bridge}`,
      ...(metadataAddress === undefined
        ? []
        : [`addr replace ${metadataAddress}/32 dev ${bridge}`]),
      `link set ${bridge} up`,
      ...(ipv6 ? namespaceLines(ipv6) : []),
      // Packets without a route are forwarded to a place where the rules refuse them at once. The kernel itself would only do
      // so rarely.
      "route replace default dev lo metric 65535",
    ]);
    // Every refusal is reported to its sender, not only the first six per second.
    await this.namespace.run("sysctl", [
      "-qwe", // without br_netfilter, the last key is unknown
      "net.ipv4.ip_forward=1",
      "net.ipv4.icmp_ratelimit=0",
      // With redirects, the host would bypass this namespace and its rules for Services.
      "net.ipv4.conf.all.send_redirects=0",
      `net.ipv4.conf.${bridge}.send_redirects=0`,
      // Redirected packets are routed, not bridged: a bridge does not return packets to the host, even if the host is the
      // endpoint.
      "net.bridge.bridge-nf-call-iptables=0",
      // Half-closed connections to Services stay translated for an hour, as on cells.
      "net.netfilter.nf_conntrack_tcp_timeout_close_wait=3600",
      // Also translate an endpoint's packet that is ahead of its window. Otherwise the client would end the connection.
      "net.netfilter.nf_conntrack_tcp_be_liberal=1",
    ]);
  }

  async #limitQuestions(): Promise<void> {
    try {
      await this.#nft(nameServerRules(this.plan));
    } catch (err) {
      this.#options.logger.warn("Could not limit what a machine asks the cluster's name server", {
        err,
      });
    }
  }

  #rules({ ipv4, ipv6 }: LocalAddresses, internet: boolean): string {
    const { plan } = this;
    const { serviceRanges } = this.#options;
    const rules = {
      ...this.#options,
      plan,
      hostAddresses: ipv4,
      serviceRanges: ofFamily(serviceRanges, 4),
      internet,
    };
    const second = plan.ipv6 && {
      ...rules,
      plan: plan.ipv6,
      hostAddresses: ipv6,
      serviceRanges: ofFamily(serviceRanges, 6),
    };
    return [bridgeRules(rules), routingRules(rules), second ? ipv6Rules(second) : ""].join("\n");
  }

  async #readClosed(): Promise<LocalAddresses> {
    const [ipv4, ipv6] = await Promise.all([
      readLocalAddresses(4),
      this.plan.ipv6 ? readLocalAddresses(6) : [],
    ]);
    return { ipv4, ipv6 };
  }

  async #closeAddresses(): Promise<void> {
    const closed = await this.#readClosed();
    const text = JSON.stringify(closed);
    if (this.#closedHost === text || !(await this.exists())) return;
    const { ipv6 } = this.plan;
    const second = ipv6 ? replaceClosedIpv6(ipv6, closed.ipv6) : "";
    await this.#nft(replaceClosed(this.plan, closed.ipv4) + second);
    this.#closedHost = text;
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
    const { range, ipv6 } = this.plan;
    await this.#refuseCollisions(4, range, { services: "10.112.0.0/16", all: "100.96.0.0/15" });
    if (!ipv6) return;
    const others = { services: "fd6b:6971:1::/112", all: "fd6b:6971::/64" };
    await this.#refuseCollisions(6, ipv6.range, others);
  }

  async #refuseCollisions(
    family: IpFamily,
    ofCloud: string,
    others: { readonly services: string; readonly all: string },
  ): Promise<void> {
    const routes = (await runCommand("ip", ["-o", `-${family}`, "route", "show"])).stdout;
    const { hostServices, serviceRanges } = this.#options;
    for (const range of hostServices === true ? ofFamily(serviceRanges, family) : []) {
      const route = findOverlap(routes, range, this.#hostDevice);
      if (route !== undefined) throw collides(range, "Services", route, others.services);
    }
    const collision = await findCollision(routes, ofCloud, this.#hostDevice);
    if (collision !== undefined) throw collides(ofCloud, "the local cloud", collision, others.all);
  }
}

/** Addresses that the host's kernel delivers locally. */
interface LocalAddresses {
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
}

function collides(range: string, what: string, route: string, other: string): CloudError {
  return new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot use range "${range}" for ${what}: this machine has the route "${route}"`,
    { remedy: `Choose another range, for example ${other}` },
  );
}

function heldBy(name: string, holder: string): CloudError {
  return new CloudError(
    "CLOUD_INVALID_REQUEST",
    `Cannot use network namespace "${name}": the local cloud in "${holder}" has it`,
    {
      remedy:
        "Choose another name and another range for this one, or remove that local cloud first",
    },
  );
}

async function ipBatch(
  run: (input: string) => Promise<unknown>,
  lines: readonly string[],
): Promise<void> {
  await run(lines.map((line) => `${line}\n`).join(""));
}

/** Names in the output of `ip -o link`, such as "3: cells@if2: <...". */
function deviceNames(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(/^\d+: ([^:@]+)/gm)].map(([, name = ""]) => name));
}
