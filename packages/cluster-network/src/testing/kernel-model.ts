import { contains, parseCidr } from "@kip/network-view";

/** The first packet of a connection. */
export interface Packet {
  readonly source: string;
  readonly address: string;
  /** As nftables writes it. */
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly port: number;
}

/** Where a packet goes, once for each random choice. */
export type Passage = { readonly to: readonly Packet[] } | "refused" | "dropped";

/**
 * One machine's tables for IPv4, read from the commands that nft gets: as much of the language as the rules use. Written from
 * the meaning of the language, not from the code that makes the rules.
 */
export class KernelModel {
  readonly #elements = new Map<string, Map<string, string>>();
  readonly #chains = new Map<string, string[]>();
  /** Sets that are written as part of a table. */
  readonly #fixed: Readonly<Record<string, readonly string[]>>;

  constructor(fixed: Readonly<Record<string, readonly string[]>>) {
    this.#fixed = fixed;
  }

  /** Takes the commands of one transaction. */
  apply(text: string): void {
    for (const line of text.split("\n")) {
      const [verb = "", kind = "", family, , name = ""] = line.split(" ");
      if (family !== "ip" || kind === "table") continue;
      const rest = line.split(" ").slice(5).join(" ");
      if (kind === "element") this.#setElements(verb === "add", name, rest.slice(2, -2));
      if (kind === "chain" && verb === "delete") this.#chains.delete(name);
      else if (kind === "chain") this.#chains.set(name, []);
      if (kind === "rule") this.#chains.set(name, [...(this.#chains.get(name) ?? []), rest]);
    }
  }

  /** Where the translation of Services leads a packet that the pod sends. */
  translate(packet: Packet): Passage {
    const key = keyOf(packet);
    const firewall = this.#lookUp("firewall", key);
    if (firewall !== undefined && this.#verdict([firewall], packet) === "drop") return "dropped";
    const value = this.#lookUp("services", key);
    if (value !== undefined) return { to: this.#targets(value, packet) };
    const isNode = this.#fixed["nodes"]?.includes(packet.address) === true;
    const atNode = `${packet.protocol} . ${packet.port}`;
    const nodePort = isNode ? this.#lookUp("nodeports", atNode) : undefined;
    if (nodePort !== undefined) return { to: this.#targets(nodePort, packet) };
    const refused =
      this.#lookUp("refused", key) ??
      (isNode ? this.#lookUp("refused_nodeports", atNode) : undefined);
    if (refused !== undefined) return refused === "drop" ? "dropped" : "refused";
    if (this.#elements.get("cluster_ips")?.has(packet.address) === true) return "refused";
    const ranges = this.#fixed["service_ranges"] ?? [];
    return ranges.some((range) => isIn(packet.address, range)) ? "dropped" : { to: [packet] };
  }

  /** What a chain of policies decides; without one, everything passes. */
  passes(chain: "ingress" | "egress", packet: Packet): boolean {
    const rules = this.#chains.get(chain);
    return rules === undefined || this.#verdict(rules, packet) === "accept";
  }

  #setElements(isAdd: boolean, set: string, list: string): void {
    const map = this.#elements.get(set) ?? new Map<string, string>();
    this.#elements.set(set, map);
    for (const entry of list.split(", ")) {
      const [key = "", value = ""] = entry.split(" : ");
      if (isAdd) map.set(key, value);
      else map.delete(key);
    }
  }

  #lookUp(map: string, key: string): string | undefined {
    return this.#elements.get(map)?.get(key);
  }

  /** Follows `goto` to all endpoints that a random number may choose. */
  #targets(verdict: string, packet: Packet): readonly Packet[] {
    const chain = verdict.slice("goto ".length);
    if (chain.startsWith("balance/")) {
      const count = Number(chain.slice("balance/".length));
      const values = Array.from({ length: count }, (_, i) =>
        this.#lookUp("endpoints", `${keyOf(packet)} . ${i}`),
      );
      return values.map((value) => moved(packet, value ?? "missing . 0"));
    }
    const rules = this.#chains.get(chain) ?? [];
    const [first = ""] = rules;
    const own = /^ip saddr @pods goto (\S+)$/.exec(first);
    if (own) return this.#targets(`goto ${own[1] ?? ""}`, packet);
    const [, data = ""] = /map \{ (.*) \}$/.exec(first) ?? [];
    return data.split(", ").map((entry) => moved(packet, entry.split(" : ")[1] ?? "missing . 0"));
  }

  #verdict(rules: readonly string[], packet: Packet): string | undefined {
    for (const rule of rules) {
      const { matches, verdict } = this.#read(rule, packet);
      if (!matches) continue;
      if (!/^(?:jump|goto) /.test(verdict)) return verdict;
      const found = this.#verdict(this.#chains.get(verdict.slice(5)) ?? [], packet);
      if (found !== undefined && found !== "return") return found;
      if (verdict.startsWith("goto ")) return undefined;
    }
    return undefined;
  }

  #read(rule: string, packet: Packet): { readonly matches: boolean; readonly verdict: string } {
    let rest = rule;
    const pattern = /^(ip saddr|ip daddr|meta l4proto|th dport) (!= )?(\{ [^}]* \}|\S+) /;
    for (let found = pattern.exec(rest); found; found = pattern.exec(rest)) {
      const [whole, field = "", not, values = ""] = found;
      if (this.#isOneOf(field, values, packet) === (not !== undefined))
        return { matches: false, verdict: "" };
      rest = rest.slice(whole.length);
    }
    return { matches: true, verdict: rest };
  }

  #isOneOf(field: string, values: string, packet: Packet): boolean {
    if (field === "meta l4proto") return values === packet.protocol;
    if (field === "th dport") return inner(values).some((each) => isPort(packet.port, each));
    const address = field === "ip saddr" ? packet.source : packet.address;
    if (!values.startsWith("@")) return inner(values).some((each) => isIn(address, each));
    const set = values.slice(1);
    return this.#fixed[set]?.includes(address) ?? this.#elements.get(set)?.has(address) ?? false;
  }
}

function keyOf({ address, protocol, port }: Packet): string {
  return `${address} . ${protocol} . ${port}`;
}

function moved(packet: Packet, target: string): Packet {
  const [address = "", port] = target.split(" . ");
  return { ...packet, address, port: Number(port) };
}

function inner(values: string): readonly string[] {
  return values.startsWith("{") ? values.slice(2, -2).split(", ") : [values];
}

function isIn(address: string, range: string): boolean {
  const [one, other] = [parseCidr(address), parseCidr(range)];
  return one !== undefined && other !== undefined && contains(other, one);
}

function isPort(port: number, range: string): boolean {
  const [first = 0, last = first] = range.split("-").map(Number);
  return port >= first && port <= last;
}
