import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import type { ServiceView } from "@kip/network-view";
import type { RoutingPlace } from "./routing-place.ts";
import { Services } from "./services.ts";
import { rebuilt, resultOf } from "./testing/steps.ts";

const place: RoutingPlace = {
  podAddresses: ["10.1.0.1"],
  nodeAddresses: [],
  serviceRanges: [],
};

/** One table as the kernel would have it. Fails where nft would. */
class Kernel {
  readonly elements = new Map<string, string>();
  readonly chains = new Map<string, string[]>();
  /** Kinds by the names of the sets and maps that an empty table lacks. */
  readonly sets = new Map<string, string>();

  apply(text: string): void {
    for (const line of text.split("\n")) {
      const words = line.split(" ");
      const [verb, kind, family, table, name = ""] = words;
      if (kind === "table" || family !== "ip" || !table?.startsWith("kip_services")) continue;
      const rest = words.slice(5).join(" ");
      if (kind === "element") this.#elements(verb === "add", name, rest.slice(2, -2));
      else if (kind === "set" || kind === "map") this.#set(verb === "add", kind, name);
      else this.#chain(`${verb} ${kind}`, name, rest);
    }
    this.#checkNames();
  }

  #elements(isAdd: boolean, map: string, list: string): void {
    for (const entry of list.split(", ")) {
      const [key = "", value = ""] = entry.split(" : ");
      const isThere = this.elements.has(`${map} ${key}`);
      assert.ok(!map.includes("/") || this.sets.has(map), map);
      assert.equal(isThere, !isAdd, `${isAdd ? "add" : "delete"} ${map} ${key}`);
      if (isAdd) this.elements.set(`${map} ${key}`, value);
      else this.elements.delete(`${map} ${key}`);
    }
  }

  #set(isAdd: boolean, kind: string, name: string): void {
    assert.equal(this.sets.get(name), isAdd ? undefined : kind, `${kind} ${name}`);
    if (isAdd) {
      this.sets.set(name, kind);
      return;
    }
    this.sets.delete(name);
    for (const key of this.elements.keys())
      if (key.startsWith(`${name} `)) this.elements.delete(key);
  }

  #chain(action: string, name: string, rule: string): void {
    if (action === "add chain") {
      if (!this.chains.has(name)) this.chains.set(name, []);
      return;
    }
    const rules = this.chains.get(name);
    assert.ok(rules, `${action} ${name}`);
    if (action === "add rule") rules.push(rule);
    else if (action === "flush chain") rules.length = 0;
    else {
      assert.equal(rules.length, 0);
      this.chains.delete(name);
    }
  }

  /** Elements and rules name only what is there. */
  #checkNames(): void {
    const texts = [...this.elements.values(), ...[...this.chains.values()].flat()];
    for (const text of texts) {
      for (const [, chain = ""] of text.matchAll(/goto ([^ ,]+)/g))
        assert.ok(chain === "refuse" || this.chains.has(chain), `goto ${chain}`);
      for (const [, set = ""] of text.matchAll(/@((?:clients|picks|endpoints)\/[^ ]+)/g))
        assert.ok(this.sets.has(set), set);
      for (const [, count, chain] of text.matchAll(/mod (\d+) .* @picks\/([^ ]+)/g))
        this.#checkPicks(Number(count), chain);
    }
  }

  /** Each shared chain has an element that leads to it. */
  checkShared(): void {
    const named = new Set(this.elements.values());
    for (const chain of this.chains.keys())
      assert.ok(!chain.startsWith("balance/") || named.has(`goto ${chain}`), chain);
  }

  /** Each of so many places has the number of an endpoint, and each endpoint has a place. */
  #checkPicks(count: number, chain = ""): void {
    const ofMap = (name: string) =>
      [...this.elements].filter(([key]) => key.startsWith(`${name}/${chain} `));
    const keys = (name: string) => ofMap(name).map(([key]) => key.split(" ")[1]);
    const places = Array.from({ length: count }, (_, place) => String(place));
    assert.deepEqual(new Set(keys("picks")), new Set(places));
    const numbers = ofMap("picks").map(([, number]) => number);
    assert.equal(new Set(numbers).size, count);
    assert.deepEqual(new Set(numbers), new Set(keys("endpoints")));
  }

  /** What leads packets, without the order of endpoints. */
  summary() {
    const endpoints = new Map<string, string[]>();
    const others = new Map<string, string>();
    for (const [key, value] of this.elements) {
      const isPlace = key.startsWith("picks/");
      if (!key.startsWith("endpoints ") && !isPlace) {
        others.set(key, value);
        continue;
      }
      const vip = key.slice(0, key.lastIndexOf(isPlace ? " " : " . "));
      endpoints.set(vip, [...(endpoints.get(vip) ?? []), value].sort());
    }
    const sorted = <V>(map: ReadonlyMap<string, V>) =>
      [...map].sort(([a], [b]) => (a < b ? -1 : 1));
    const chains = [...this.chains.keys()];
    return {
      endpoints: sorted(endpoints),
      others: sorted(others),
      chains: chains.sort(),
      sets: sorted(this.sets),
    };
  }
}

const endpointUpTo = (max: number) =>
  fc.integer({ min: 1, max }).map((host) => `10.1.0.${host}:80`);
/** Of many endpoints, only those that differ are looked at. */
const list = fc.oneof(
  fc.uniqueArray(endpointUpTo(5), { maxLength: 4 }),
  fc.uniqueArray(endpointUpTo(26), { minLength: 19, maxLength: 24 }),
);
const maybe = fc.boolean().map((is) => is || undefined);

/** Service `n`; addresses and ports that no other one has. */
function serviceArbitrary(n: number): fc.Arbitrary<ServiceView | undefined> {
  const port = fc.record({
    name: fc.constant(""),
    protocol: fc.constantFrom("TCP", "UDP"),
    port: fc.constantFrom(80, 81),
    nodePort: fc.option(fc.constantFrom(30_000 + n, 31_000 + n), { nil: undefined }),
    endpoints: list,
    localEndpoints: list,
  });
  const view = fc.record({
    clusterIps: fc.constant([`10.96.0.${n}`]),
    externalIps: fc.subarray([`192.0.2.${n}`, `203.0.113.${n}`, `10.96.0.${n}`]),
    loadBalancerIps: fc.option(fc.constant([`198.51.100.${n}`]), { nil: undefined }),
    sourceRanges: fc.subarray(["10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24"]),
    affinitySeconds: fc.option(fc.constantFrom(10, 20), { nil: undefined }),
    isInternalLocal: maybe,
    isExternalLocal: maybe,
    ports: fc.uniqueArray(port, {
      minLength: 1,
      maxLength: 2,
      comparator: (a, b) =>
        (a.port === b.port && a.protocol === b.protocol) ||
        (a.nodePort !== undefined && a.nodePort === b.nodePort),
    }),
  });
  return fc.option(view, { nil: undefined });
}

const change = fc
  .integer({ min: 1, max: 4 })
  .chain((n) => serviceArbitrary(n).map((view) => [`default/s${n}`, view] as const));

/** A Service of which nothing changes but its endpoints. */
const endpointChanges = serviceArbitrary(1).chain((service) =>
  fc
    .array(fc.array(fc.record({ endpoints: list, localEndpoints: list }), size(2)), size(8))
    .map((states) =>
      states.map((lists) => {
        const view = service && {
          ...service,
          ports: service.ports.map((port, index) => ({ ...port, ...lists[index] })),
        };
        return [["default/s1", view] as const];
      }),
    ),
);

function size(length: number) {
  return { minLength: length, maxLength: length };
}

type Batch = readonly (readonly [string, ServiceView | undefined])[];

/** @param partCharacters where a transaction ends, as Services have it */
function check(batches: readonly Batch[], partCharacters?: number): void {
  const services = new Services(place, [], partCharacters, 0);
  const kernel = new Kernel();
  for (const batch of batches) {
    for (const text of resultOf(services.change(new Map(batch))).texts) kernel.apply(text);
    kernel.checkShared();
  }
  const fresh = new Kernel();
  for (const text of rebuilt(services)) fresh.apply(text);
  assert.deepEqual(kernel.summary(), fresh.summary());
}

describe("Services, by a model of the kernel", () => {
  it("has after any changes what a new table has, and no change fails", () => {
    const steps = fc.array(fc.array(change, { minLength: 1, maxLength: 4 }), { maxLength: 12 });
    fc.assert(
      fc.property(steps, (batches) => check(batches)),
      { numRuns: 200 },
    );
  });

  it("has the same after changes of endpoints alone, few and many", () => {
    fc.assert(
      fc.property(endpointChanges, (batches) => check(batches)),
      { numRuns: 200 },
    );
  });

  it("has the same wherever a transaction ends", () => {
    const steps = fc.array(fc.array(change, { minLength: 1, maxLength: 4 }), { maxLength: 12 });
    const parts = fc.constantFrom(1, 1000);
    fc.assert(fc.property(steps, parts, check), { numRuns: 200 });
    fc.assert(fc.property(endpointChanges, parts, check), { numRuns: 100 });
  });
});
