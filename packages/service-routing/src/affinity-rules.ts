import { createHash } from "node:crypto";
import type { Family } from "./family.ts";
import type { RuleSet, RuleSetBuilder } from "./rule-set.ts";

/** Session affinity for one list of endpoints of a port. Each list has its own chain and maps, because two lists may have no common endpoint. */
export interface AffinityOptions {
  readonly rules: RuleSetBuilder;
  readonly family: Family;
  /** In lower case. */
  readonly protocol: string;
  readonly chain: string;
  /** How long a client keeps its endpoint after its last connection. */
  readonly seconds: number;
  readonly endpoints: readonly string[];
  /** Indexes in `endpoints` for which elements are made. @default all */
  readonly places?: ReadonlySet<number> | undefined;
  /** The address and port of an endpoint, as a value of a map. */
  readonly dataOf: (endpoint: string) => string;
}

/** A map in which the kernel stores the endpoint of each client. It has the same name in both tables of Services. */
export interface ClientMap {
  readonly ip: Family["ip"];
  readonly name: string;
  readonly namespace: string;
}

/** The range of endpoint numbers, which are used as packet marks. All are larger than any index in a list of endpoints. */
export const affinityMarks = { first: 0x4000_0000, last: 0x4fff_ffff } as const;

/** Maximum number of clients of a list that keep their endpoint. Other clients get a new endpoint with each connection. */
const maxClients = 65_536;

/**
 * Adds the chain of a port with session affinity. The map of clients contains the number of each client's endpoint. The number is a hash of
 * the endpoint. It is not the endpoint's index in the list, because that changes when other endpoints change. If no endpoint has the number,
 * the client's endpoint is gone, and it gets another one. The client's element is deleted first, because an update in the kernel does not
 * change the value of an element.
 *
 * The timeout is only in rules, not in definitions of maps. So a new timeout keeps all clients and their endpoints.
 */
export function addAffinity(options: AffinityOptions): void {
  const { rules, family, protocol, chain, seconds, endpoints, places, dataOf } = options;
  const [clients, picks, targets] = [`clients/${chain}`, `picks/${chain}`, `endpoints/${chain}`];
  const { ip, type } = family;
  const dynamic = `flags dynamic,timeout; size ${maxClients};`;
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

/** Whether hashes of these endpoints collide. If so, the numbers of some endpoints depend on the other endpoints. */
export function haveCollidingHashes(endpoints: readonly string[]): boolean {
  return new Set(endpoints.map(numberOf)).size < endpoints.length;
}

/**
 * A number for each endpoint, independent of their order. If two hashes collide, the endpoint that sorts later gets the next free number. For
 * 2,000 endpoints, the probability of a collision is 1 %.
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
