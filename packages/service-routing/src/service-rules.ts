import { createHash } from "node:crypto";
import {
  limits,
  parseEndpoint,
  type Endpoint,
  type ServicePortView,
  type ServiceView,
} from "@kip/network-view";
import { addAffinity } from "./affinity-rules.ts";
import { ofFamily, type Family } from "./family.ts";
import { rangeSet } from "./range-set.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { RuleSetBuilder, type RuleSet } from "./rule-set.ts";

/** A Service, and the machine that its rules are for. */
export interface ServiceRulesOptions {
  /** Namespace and name. */
  readonly key: string;
  /** Of its ports only their numbers are read. */
  readonly view: ServiceView;
  readonly family: Family;
  readonly place: RoutingPlace;
}

/** One port of a Service, and the endpoints for which elements are made. */
export interface PortRulesOptions extends ServiceRulesOptions {
  readonly port: ServicePortView;
  /** Indexes in {@link PortEndpoints}. No elements are made for other endpoints. @default all */
  readonly places?: ReadonlySet<number> | undefined;
}

/** The endpoints of a port in one family: those for traffic policy `Cluster`, and those on the node. */
export interface PortEndpoints {
  readonly anywhere: readonly string[];
  readonly onNode: readonly string[];
}

/** One port of a Service in one family. */
interface PortContext extends PortRulesOptions {
  /** Part of the names of chains and sets: at most 80 characters. */
  readonly id: string;
  readonly protocol: string;
  /** The Service's own addresses in the family: at least one. */
  readonly clusterIps: readonly string[];
  readonly endpoints: PortEndpoints;
  readonly rules: RuleSetBuilder;
}

/** What happens to packets to an address and port of a Service. */
type Target =
  | { readonly kind: "balance"; readonly endpoints: readonly string[]; readonly chain: string }
  | { readonly kind: "chain"; readonly chain: string }
  | { readonly kind: "refuse" }
  | { readonly kind: "drop" };

/**
 * The rules of one port of a Service in the table of one family. Rules for all ports are in {@link sharedRules}.
 *
 * Most Services only have elements, in maps that all Services share. The map `services` maps an address and port to the shared chain for the
 * number of endpoints. This chain chooses a random index, and looks up the endpoint in the map `endpoints` by address, port and index. So the
 * time for a change does not depend on the size of the table. NodePorts, several external addresses, session affinity and
 * `externalTrafficPolicy: Local` need separate chains.
 *
 * Packets are refused, dropped and balanced as in kube-proxy.
 */
export function portRules(options: PortRulesOptions): RuleSet {
  const { key, family, port } = options;
  const rules = new RuleSetBuilder();
  const clusterIps = ofFamily(options.view.clusterIps, family);
  if (clusterIps.length === 0) return rules; // as in kube-proxy, the Service has no rules in this IP version
  const protocol = port.protocol.toLowerCase();
  const id = shortened(`${key}/${protocol}-${port.port}`);
  const endpoints = portEndpoints(port, family);
  const context = { ...options, id, protocol, clusterIps, endpoints, rules };
  addClusterIps(context);
  addExternal(context);
  return rules;
}

/** The rules that all ports of a Service share: for its ClusterIPs, and for the source ranges of its load balancer. */
export function sharedRules(options: ServiceRulesOptions): RuleSet {
  const { view, family } = options;
  const rules = new RuleSetBuilder();
  for (const address of ofFamily(view.clusterIps, family)) rules.element("cluster_ips", address);
  addFirewall(rules, options);
  return rules;
}

/** Endpoints of a port, in the order in which they have elements. */
export function portEndpoints(
  { endpoints, localEndpoints = [] }: ServicePortView,
  family: Family,
): PortEndpoints {
  return { anywhere: ofFamily(endpoints, family), onNode: ofFamily(localEndpoints, family) };
}

/** Name of the shared chain that chooses one of `count` endpoints. */
export function balanceChain(count: number): string {
  return `balance/${count}`;
}

/** The number of endpoints of the shared chain in a value of the map `services`. Undefined for another chain. */
export function balancedCount(value: string): number | undefined {
  return value.startsWith("goto balance/")
    ? Number(value.slice("goto balance/".length))
    : undefined;
}

/**
 * Rules of {@link balanceChain}. The random index is stored in the mark of the packet until the packet leaves. The reason: in a map with declared
 * types, a key cannot contain a plain number, and nft 1.0.6 cannot read maps without declared types.
 *
 * While a change is applied, a packet may be handled with the old number of endpoints. Kernels before 6.17 may also find neither the old nor
 * the new state of an element. Such a packet is dropped, and TCP sends it again. Otherwise it would reach the rules that refuse connections.
 */
export function balanceRules(count: number, { ip }: Family): readonly string[] {
  const key = `${ip} daddr . meta l4proto . th dport . meta mark`;
  return [
    `meta mark set numgen random mod ${count}`,
    `meta l4proto { tcp, udp, sctp } dnat ${ip} to ${key} map @endpoints`,
    "drop",
  ];
}

function addClusterIps(context: PortContext): void {
  const { view, id, clusterIps } = context;
  const { anywhere, onNode } = context.endpoints;
  const isLocal = view.isInternalLocal ?? false;
  const endpoints = isLocal ? onNode : anywhere;
  const target = targetOf(context, {
    endpoints,
    isDropped: isLocal && anywhere.length > 0,
    chain: `${isLocal ? "local" : "all"}/${id}`,
  });
  for (const address of clusterIps) addVip(context, address, target);
}

function addExternal(context: PortContext): void {
  const { view, family, place, port, rules, protocol } = context;
  const addresses = [...(view.externalIps ?? []), ...(view.loadBalancerIps ?? [])];
  const vips = ofFamily([...new Set(addresses)], family);
  if (vips.length === 0 && port.nodePort === undefined) return;
  // Clients of a router count as the node itself. With kube-proxy, a node can reach all endpoints.
  const isLocal = view.isExternalLocal === true && place.clients === undefined;
  const found = isLocal ? externalLocalTarget(context) : clusterTarget(context);
  // Without a chain, each address has an element for each endpoint. This costs less if there are few.
  const hasChain =
    found.kind === "balance" && (vips.length - 1) * found.endpoints.length > limits.chainElements;
  const target: Target = hasChain ? { kind: "chain", chain: ownChain(context, found) } : found;
  for (const address of vips) addVip(context, address, target);
  if (port.nodePort === undefined) return;
  const key = `${protocol} . ${port.nodePort}`;
  if (target.kind === "refuse" || target.kind === "drop")
    rules.element("refused_nodeports", key, verdict(target));
  else rules.element("nodeports", key, `goto ${ownChain(context, target)}`);
}

function clusterTarget(context: PortContext): Target {
  const { endpoints, id } = context;
  return targetOf(context, { endpoints: endpoints.anywhere, isDropped: false, chain: `all/${id}` });
}

/** The pod and the machine can reach every endpoint, because their source address may change. Others can only reach the pod's own endpoint. */
function externalLocalTarget(context: PortContext): Target {
  const { family, id, rules } = context;
  const all = clusterTarget(context);
  if (all.kind === "refuse" || all.kind === "drop") return all;
  const own = ownEndpoints(context);
  const chain = `external/${id}`;
  const everywhere = ownChain(context, all);
  rules.chains.set(chain, [
    `${family.ip} saddr @pods goto ${everywhere}`,
    `fib saddr type local goto ${everywhere}`,
    own.length === 0 ? "drop" : translate(context, own),
  ]);
  return { kind: "chain", chain };
}

/**
 * The local endpoints that belong to this machine's own pod. If a packet that keeps its source address went to another pod, the reply would not
 * come back through this machine. As in kube-proxy, an endpoint without a node name is not local.
 */
function ownEndpoints({ endpoints, place }: PortContext): readonly string[] {
  const own = [...place.podAddresses, ...(place.machineAddresses ?? [])];
  return endpoints.onNode.filter((text) => own.includes(parsed(text).address));
}

function targetOf(
  context: PortContext,
  options: {
    readonly endpoints: readonly string[];
    readonly isDropped: boolean;
    readonly chain: string;
  },
): Target {
  const { endpoints, isDropped, chain } = options;
  if (endpoints.length === 0) return { kind: isDropped ? "drop" : "refuse" };
  const seconds = context.view.affinitySeconds;
  if (seconds === undefined) return { kind: "balance", endpoints, chain };
  addAffinity({ ...context, chain, seconds, endpoints, dataOf });
  return { kind: "chain", chain };
}

function addVip(context: PortContext, address: string, target: Target): void {
  const { rules, protocol, port } = context;
  const key = `${address} . ${protocol} . ${port.port}`;
  switch (target.kind) {
    case "balance": {
      rules.element("services", key, `goto ${balanceChain(target.endpoints.length)}`);
      for (const index of context.places ?? target.endpoints.keys()) {
        const endpoint = target.endpoints[index];
        if (endpoint !== undefined)
          rules.element("endpoints", `${key} . ${index}`, dataOf(endpoint));
      }
      return;
    }
    case "chain":
      return rules.element("services", key, `goto ${target.chain}`);
    case "refuse":
    case "drop":
      return rules.element("refused", key, verdict(target));
  }
}

function verdict({ kind }: { readonly kind: "refuse" | "drop" }): string {
  return kind === "drop" ? "drop" : "goto refuse";
}

/** The name of a chain that implements the target. Adds the chain if necessary. */
function ownChain(
  context: PortContext,
  target: Exclude<Target, { kind: "refuse" | "drop" }>,
): string {
  if (target.kind === "balance")
    context.rules.chains.set(target.chain, [translate(context, target.endpoints)]);
  return target.chain;
}

/** A rule that sends packets to one of the endpoints, at random. */
function translate({ family, protocol }: PortContext, endpoints: readonly string[]): string {
  const data = endpoints.map((endpoint, index) => `${index} : ${dataOf(endpoint)}`).join(", ");
  const pick = `numgen random mod ${endpoints.length} map { ${data} }`;
  return `meta l4proto ${protocol} dnat ${family.ip} to ${pick}`;
}

/** Closes a load balancer's addresses to clients outside its source ranges, with one rule for all ports. */
function addFirewall(rules: RuleSetBuilder, { key, view, family }: ServiceRulesOptions): void {
  const vips = ofFamily(view.loadBalancerIps ?? [], family);
  const ranges = ofFamily(view.sourceRanges ?? [], family);
  if (vips.length === 0 || ranges.length === 0) return;
  const chain = `sources/${shortened(key)}`;
  rules.chains.set(chain, [`${family.ip} saddr != ${rangeSet(ranges)} drop`]);
  for (const { protocol, port } of view.ports)
    for (const address of vips) {
      const to = `${address} . ${protocol.toLowerCase()} . ${port}`;
      rules.element("firewall", to, `goto ${chain}`);
    }
}

function dataOf(endpoint: string): string {
  const { address, port } = parsed(endpoint);
  return `${address} . ${port}`;
}

/** Parses an endpoint. It is valid, because decoders of views have checked it. */
function parsed(text: string): Endpoint {
  const endpoint = parseEndpoint(text);
  if (!endpoint) throw new TypeError(`Expected an endpoint, got ${JSON.stringify(text)}`);
  return endpoint;
}

/**
 * Shortens an id to 64 characters, because it is a part of names, and names in nftables have at most 127 characters. Users choose the names of
 * Services. So the hash has 128 bits, because with 64 bits a collision is found after about 2^32 attempts. Other ids contain no dot, so they
 * never equal a shortened one.
 */
function shortened(id: string): string {
  if (id.length <= 64) return id;
  return `${id.slice(0, 31)}.${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}
