import { createHash } from "node:crypto";
import type { Family } from "./family.ts";
import type { RuleSet, RuleSetBuilder } from "./rule-set.ts";

/** The endpoints that clients of one port keep, for so long: those of each of its lists on their own, as lists may have no endpoint in common. */
export interface AffinityOptions {
  readonly rules: RuleSetBuilder;
  readonly family: Family;
  /** In small letters. */
  readonly protocol: string;
  readonly chain: string;
  /** Since the last connection of a client. */
  readonly seconds: number;
  readonly endpoints: readonly string[];
  /** Places in `endpoints` that have elements. @default all */
  readonly places?: ReadonlySet<number> | undefined;
  /** The address and port of an endpoint, as a value of a map. */
  readonly dataOf: (endpoint: string) => string;
}

/** A map in which the kernel notes which endpoint each client of a list of endpoints has; the same in both tables. */
export interface ClientMap {
  readonly ip: Family["ip"];
  readonly name: string;
  readonly namespace: string;
}

/** Numbers of endpoints that clients keep, as marks of packets. No place in a list is so large. */
export const affinityMarks = { first: 0x4000_0000, last: 0x4fff_ffff } as const;

/** Most clients of a port at one time that keep their endpoint. Others have a new one with each connection. */
const mostClients = 65_536;

/**
 * The chain of a port with session affinity. Each client has the number of its endpoint, which depends on the endpoint alone: it is neither
 * its place in the list, which changes with other endpoints, nor that of another one, but by a chance of 2^-28 for two of them. If no endpoint has the number, the client's
 * is gone, and it gets another one. The kernel keeps the value of an element that it updates, so that one is deleted first.
 *
 * The seconds are only in rules, not in definitions: another time leaves all elements, and clients with their endpoints.
 */
export function addAffinity(options: AffinityOptions): void {
  const { rules, family, protocol, chain, seconds, endpoints, places, dataOf } = options;
  const [clients, picks, targets] = [`clients/${chain}`, `picks/${chain}`, `endpoints/${chain}`];
  const { ip, type } = family;
  const dynamic = `flags dynamic,timeout; size ${mostClients};`;
  rules.sets.set(clients, { kind: "map", definition: `type ${type} : mark; ${dynamic}` });
  rules.sets.set(picks, { kind: "map", definition: "type mark : mark;" });
  rules.sets.set(targets, { kind: "map", definition: `type mark : ${type} . inet_service;` });
  const client = `${ip} saddr`;
  const note = `update @${clients} { ${client} timeout ${seconds}s : meta mark }`;
  const translate = `dnat ${ip} to meta mark map @${targets}`;
  rules.chains.set(chain, [
    `meta l4proto ${protocol} meta mark set ${client} map @${clients} ${note} ${translate}`,
    `delete @${clients} { ${client} : meta mark } ` +
      `meta mark set numgen random mod ${endpoints.length} ` +
      `meta mark set meta mark map @${picks} ${note}`,
    `meta l4proto ${protocol} ${translate}`,
    "drop", // See balanceRules().
  ]);
  if (places?.size === 0) return;
  const numbers = numbersOf(endpoints);
  for (const place of places ?? endpoints.keys()) {
    const endpoint = endpoints[place];
    const number = numbers.get(endpoint ?? "");
    if (endpoint === undefined || number === undefined) continue;
    rules.element(picks, String(place), String(number));
    rules.element(targets, String(number), dataOf(endpoint));
  }
}

/** The maps of clients in the rules of a Service. @param key its namespace and name */
export function clientMapsOf({ sets }: RuleSet, { ip }: Family, key: string): readonly ClientMap[] {
  const [namespace = ""] = key.split("/");
  const names = [...sets.keys()].filter((name) => name.startsWith("clients/"));
  return names.map((name) => ({ ip, name, namespace }));
}

/** Whether several of these endpoints would have the same number, so that those of some depend on which others there are. */
export function areNumbersShared(endpoints: readonly string[]): boolean {
  return new Set(endpoints.map(numberOf)).size < endpoints.length;
}

/**
 * A number for each endpoint. Of two that would have the same one, which 2,000 endpoints have with a chance of 1 %, the later one of the
 * alphabet gets the next: so they do not depend on the order.
 */
function numbersOf(endpoints: readonly string[]): ReadonlyMap<string, number> {
  const numbers = new Map(endpoints.map((endpoint) => [endpoint, numberOf(endpoint)]));
  const taken = new Set(numbers.values());
  if (taken.size === numbers.size) return numbers;
  taken.clear();
  for (const [endpoint, first] of [...numbers].sort(([a], [b]) => (a < b ? -1 : 1))) {
    let number = first;
    while (taken.has(number))
      number = number === affinityMarks.last ? affinityMarks.first : number + 1;
    taken.add(number);
    numbers.set(endpoint, number);
  }
  return numbers;
}

function numberOf(endpoint: string): number {
  const bits = createHash("sha256").update(endpoint).digest().readUInt32BE(0);
  return affinityMarks.first + (bits & (affinityMarks.last - affinityMarks.first));
}
