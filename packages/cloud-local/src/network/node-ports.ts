import { errorText, every, SerialQueue, type Clock, type Logger } from "@kip/base";
import {
  bucketOf,
  ipFamily,
  textFamily,
  type ServiceView,
  type ViewChange,
} from "@kip/network-view";
import type { ConnectionRelay, Relay } from "./listen-at.ts";
import { openHealthCheck, type ServiceHealth } from "./health-check.ts";
import { OwnAddresses } from "./own-addresses.ts";
import { RelayClients } from "./relay-clients.ts";
import { openTcpRelay, openUdpRelay, type RelayOptions } from "./relay.ts";

/** Options of {@link NodePorts}. */
export interface NodePortsOptions {
  /** Addresses of this computer for NodePorts. */
  readonly addresses: readonly string[];
  /** Address at which rules route each NodePort to its endpoints. */
  readonly target: string;
  /** The same for clients on other computers. @default target */
  readonly targetOfOthers?: string | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Limits the clients of all ports together. @default this process's limit */
  readonly clients?: RelayClients | undefined;
}

/**
 * Interval for retrying ports that other programs use, and for finding new addresses of this computer, milliseconds. There is
 * no event when a port becomes free.
 */
const retryMs = 30_000;

/**
 * Relays NodePorts of Services at addresses of this computer. This process listens there and forwards everything to the
 * namespace, so nothing is left when the process ends. SCTP is not supported, because Node has no sockets for it. This process
 * answers the ports for load balancers' health checks itself.
 *
 * A TCP port is open only while its Service has an endpoint, so that clients are refused otherwise, as with kube-proxy. Open
 * connections stay when the last endpoint goes, and end with the NodePort.
 */
export class NodePorts implements AsyncDisposable {
  readonly #options: NodePortsOptions;
  readonly #ofServices = new Map<string, WantedPorts>();
  /** By port. */
  readonly #health = new Map<number, ServiceHealth>();
  /** By address, protocol and port. Undefined while another program uses the port. */
  readonly #relays = new Map<string, Relay | undefined>();
  /** Closed relays that still have connections, with address, protocol and port. */
  readonly #draining = new Map<ConnectionRelay, string>();
  readonly #clients: RelayClients;
  readonly #own: OwnAddresses;
  /** A port that is being retried may no longer be wanted once it is open. */
  readonly #queue = new SerialQueue();
  readonly #stop = new AbortController();
  readonly #retries: Promise<void>;

  constructor(options: NodePortsOptions) {
    this.#options = options;
    this.#clients = options.clients ?? new RelayClients();
    this.#own = new OwnAddresses(options.clock);
    this.#retries = every(
      {
        ...options,
        what: "open NodePorts",
        intervalMs: retryMs,
        isImmediate: false,
        signal: this.#stop.signal,
      },
      async () => await this.#queue.run(async () => await this.#settle(false)),
    );
  }

  /** Opens and closes ports for a change. Call it once the change's rules are in force. Never throws. */
  async apply(change: ViewChange): Promise<void> {
    await this.#queue.run(async () => await this.#apply(change));
  }

  async #apply({ services, buckets, kept }: ViewChange): Promise<void> {
    for (const key of this.#ofServices.keys())
      if (buckets.includes(bucketOf(key)) && !kept?.has(key)) this.#ofServices.delete(key);
    for (const [key, view] of services) {
      const ports = view ? nodePortsOf(view) : noPorts;
      if (view?.healthCheck)
        this.#health.set(view.healthCheck.port, { key, endpoints: view.healthCheck.localReady });
      if (ports.open.length + ports.idle.length > 0) this.#ofServices.set(key, ports);
      else this.#ofServices.delete(key);
    }
    await this.#settle(true);
  }

  /** Closes ports that are no longer wanted, and opens the wanted ones. */
  async #settle(isFirst: boolean): Promise<void> {
    const at = this.#places();
    const ports = [...this.#ofServices.values()];
    const wanted = new Set(ports.flatMap(({ open }) => open).flatMap(at));
    const idle = new Set(ports.flatMap((each) => each.idle).flatMap(at));
    for (const [name, relay] of this.#relays) {
      if (wanted.has(name)) continue;
      this.#relays.delete(name);
      if (relay && idle.has(name) && "drain" in relay) this.#drain(name, relay as ConnectionRelay);
      else await relay?.[Symbol.asyncDispose]();
    }
    for (const [relay, name] of this.#draining)
      if (!wanted.has(name) && !idle.has(name)) await relay[Symbol.asyncDispose]();
    for (const port of this.#health.keys())
      if (!wanted.has(at(`${healthCheck} ${port}`)[0] ?? "")) this.#health.delete(port);
    for (const name of wanted)
      if (isFirst ? !this.#relays.has(name) : !this.#relays.get(name))
        await this.#open(name, isFirst);
  }

  #drain(name: string, relay: ConnectionRelay): void {
    this.#draining.set(relay, name);
    void relay.drain().then(() => this.#draining.delete(relay));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#retries;
    for (const relay of [...this.#relays.values(), ...this.#draining.keys()])
      await relay?.[Symbol.asyncDispose]();
    this.#relays.clear();
  }

  /**
   * The addresses to listen on for a port. A UDP socket for all addresses would answer from the route's source address, which
   * may not be the address that the client used.
   */
  #places(): (port: string) => readonly string[] {
    const { addresses } = this.#options;
    const ofUdp = addresses.includes("0.0.0.0") ? this.#own.list() : addresses;
    return (port) =>
      (port.startsWith("UDP ") ? ofUdp : addresses).map((address) => `${address} ${port}`);
  }

  async #open(name: string, isFirst: boolean): Promise<void> {
    const { logger, target, targetOfOthers } = this.#options;
    const [address = "", protocol = "", text] = name.split(" ");
    const port = Number(text);
    const others =
      targetOfOthers === undefined ? undefined : { target: targetOfOthers, own: this.#own };
    const options = { address, port, target, others, clients: this.#clients };
    this.#relays.set(name, undefined);
    try {
      this.#relays.set(name, await this.#listen(protocol, options));
      if (!isFirst) logger.info("Opened a NodePort", { address, protocol, port });
    } catch (error) {
      if (!isFirst) return;
      logger.warn("Could not open a NodePort on this computer", {
        address,
        protocol,
        port,
        reason: errorText(error),
        remedy:
          "End the program that has the port, or give the Service another nodePort; it is tried again",
      });
    }
  }

  async #listen(protocol: string, options: RelayOptions): Promise<Relay> {
    if (protocol === "TCP") return await openTcpRelay(options);
    if (protocol === "UDP") return await openUdpRelay(options);
    return await openHealthCheck({ ...options, health: () => this.#health.get(options.port) });
  }
}

/** Used in place of a protocol for ports that this process answers itself. */
const healthCheck = "health-check";

/** Ports of a Service, each as protocol and port. */
interface WantedPorts {
  readonly open: readonly string[];
  /** Ports without an endpoint: they are closed, but existing connections stay. */
  readonly idle: readonly string[];
}

const noPorts: WantedPorts = { open: [], idle: [] };

/**
 * The ports to open for a Service. None for an IPv6-only Service: relays connect over IPv4, for which it has no rule. The host
 * can reach all endpoints, whatever `externalTrafficPolicy` says. UDP ports are always open, because a UDP client without an
 * endpoint gets no answer anyway.
 */
function nodePortsOf({ clusterIps, ports, healthCheck: check }: ServiceView): WantedPorts {
  if (!clusterIps.some((address) => ipFamily(address) === 4)) return noPorts;
  const open = check ? [`${healthCheck} ${check.port}`] : [];
  const idle: string[] = [];
  for (const { protocol, nodePort, endpoints } of ports) {
    if (nodePort === undefined || protocol === "SCTP") continue;
    const isOpen = protocol === "UDP" || endpoints.some((text) => textFamily(text) === 4);
    (isOpen ? open : idle).push(`${protocol} ${nodePort}`);
  }
  return { open, idle };
}
