import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodeLine } from "@kip/network-view";
import { NamespaceBudget } from "./namespace-budget.ts";
import { costOf, mostOfNamespaceCost } from "./service-cost.ts";

const most = { elements: 100, bytes: 1000 };
const elements = (count: number) => ({ elements: count, bytes: 1 });
/** Months of one year. */
const at = (month: number): string => `2026-${String(month).padStart(2, "0")}-01T00:00:00Z`;

describe("NamespaceBudget", () => {
  it("refuses the youngest Services, by their time of creation and then by name, in whatever order they come", () => {
    const services = [
      ["a/z", at(1)],
      ["a/y", at(2)],
      ["a/b", at(3)],
      ["a/c", at(3)],
    ] as const;
    for (const order of [services, services.toReversed()]) {
      const budget = new NamespaceBudget(most);
      for (const [key, created] of order) budget.set(key, created, elements(30));
      assert.deepEqual(budget.settle(), { refused: ["a/c"], admitted: [] });
      assert.equal(budget.isRefused("a/c"), true);
      assert.equal(budget.refusedCount("a"), 1);
    }
  });

  it("keeps the place of older Services, however large a younger one is", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/old", at(1), elements(60));
    budget.settle();
    budget.set("a/large", at(2), elements(90));
    budget.set("a/small", at(3), elements(40));
    assert.deepEqual(budget.settle(), { refused: ["a/large"], admitted: [] });
  });

  it("refuses a Service that is too large alone, and no other", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/large", at(1), elements(101));
    budget.set("a/small", at(2), elements(100));
    assert.deepEqual(budget.settle().refused, ["a/large"]);
  });

  it("names younger Services that an older one leaves no room for as it grows, and those that get it back", () => {
    const budget = new NamespaceBudget(most);
    for (const month of [1, 2, 3, 4]) budget.set(`a/${month}`, at(month), elements(25));
    assert.deepEqual(budget.settle(), { refused: [], admitted: [] });
    budget.set("a/1", at(1), elements(50));
    assert.deepEqual(budget.settle(), { refused: ["a/4"], admitted: [] });
    budget.set("a/2", at(2), undefined);
    assert.deepEqual(budget.settle(), { refused: [], admitted: ["a/4"] });
    assert.equal(budget.isExceeded("a"), false);
    budget.set("a/1", at(1), elements(25));
    assert.deepEqual(budget.settle(), { refused: [], admitted: [] });
  });

  it("ranks a Service that was made again under its name as a new one", () => {
    const budget = new NamespaceBudget(most);
    budget.set("a/1", at(1), elements(60));
    budget.set("a/2", at(2), elements(60));
    assert.deepEqual(budget.settle().refused, ["a/2"]);
    budget.set("a/1", at(3), elements(60));
    assert.deepEqual(budget.settle(), { refused: ["a/1"], admitted: ["a/2"] });
  });

  it("counts bytes, too, and each namespace by itself", () => {
    const budget = new NamespaceBudget(most);
    for (const namespace of ["a", "b"])
      for (const month of [1, 2])
        budget.set(`${namespace}/${month}`, at(month), {
          elements: 1,
          bytes: namespace === "a" ? 501 : 500,
        });
    assert.deepEqual(budget.settle().refused, ["a/2"]);
  });

  it("comes to the same as a computation of all, whatever changes", () => {
    const budget = new NamespaceBudget(most);
    const known = new Map<string, { created: string; cost: number }>();
    const refused = new Set<string>();
    let seed = 7;
    const random = (below: number): number =>
      (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) % below;
    for (let round = 0; round < 2000; round++) {
      for (let i = random(3); i >= 0; i--) {
        const key = `a/${random(12)}`;
        const created = known.get(key)?.created ?? at(1 + random(12));
        const cost = random(40);
        if (random(4) === 0) known.delete(key);
        else known.set(key, { created, cost });
        budget.set(key, created, known.has(key) ? elements(cost) : undefined);
        if (!known.has(key)) refused.delete(key);
      }
      const { refused: lost, admitted } = budget.settle();
      for (const key of lost) refused.add(key);
      for (const key of admitted) refused.delete(key);
      let sum = 0;
      const wanted = [...known]
        .sort(([a, x], [b, y]) => (`${x.created} ${a}` < `${y.created} ${b}` ? -1 : 1))
        .filter(([, { cost }]) => sum + cost > most.elements || ((sum += cost), false))
        .map(([key]) => key);
      assert.deepEqual([...refused].sort(), wanted.sort());
      assert.equal(budget.refusedCount("a"), wanted.length);
      for (const key of known.keys()) assert.equal(budget.isRefused(key), refused.has(key));
    }
  });
});

describe("costOf()", () => {
  const port = { name: "", protocol: "TCP", port: 80 } as const;
  const list = (count: number, of: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => of(i));
  const v4 = (i: number): string => `10.1.${i >> 8}.${i & 255}:8080`;
  const v6 = (i: number): string =>
    `[fd00:1111:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}]:8080`;

  it("leaves room for 10,000 Services with 10 endpoints of each family in a namespace", () => {
    const endpoints = [...list(10, v4), ...list(10, v6)];
    const view = {
      clusterIps: ["10.96.100.1", "fd00::1234:5678"],
      ports: [{ ...port, endpoints }],
    };
    const { elements: each, bytes } = costOf("a-namespace-of-mine/a-service-of-mine-1234", view);
    assert.equal(each, 22);
    assert.ok(10_000 * each <= mostOfNamespaceCost.elements);
    assert.ok(10_000 * bytes <= mostOfNamespaceCost.bytes);
  });

  it("counts endpoints once for all external addresses, which cells have one chain for", () => {
    const endpoints = list(1000, v4);
    const externalIps = list(255, (i) => `192.0.2.${i}`);
    const view = { clusterIps: ["10.96.0.1"], externalIps, ports: [{ ...port, endpoints }] };
    assert.equal(costOf("a/b", view).elements, 1001 + 255 + 1000 + 20);
    assert.equal(costOf("a/b", { ...view, externalIps: ["192.0.2.1"] }).elements, 1001 + 1001);
  });

  it("counts each chain as what nft takes for it, and none where a few elements are cheaper", () => {
    const of = (endpoints: number, more: object) =>
      costOf("a/b", {
        clusterIps: ["10.96.0.1"],
        ports: [{ ...port, endpoints: list(endpoints, v4) }],
        ...more,
      }).elements;
    const externalIps = ["192.0.2.1", "192.0.2.2"];
    assert.equal(of(1, { externalIps }), 2 + 4);
    assert.equal(of(21, { externalIps }), 22 + 2 + 21 + 20);
    assert.equal(of(1, { externalIps: ["192.0.2.1"], isExternalLocal: true }), 2 + 2 + 1 + 40);
  });

  it("counts source ranges once for all ports", () => {
    const ports = list(100, String).map((name, i) => ({
      ...port,
      name,
      port: i + 1,
      endpoints: [],
    }));
    const sourceRanges = list(255, (i) => `10.${i}.0.0/16`);
    const view = { clusterIps: [], loadBalancerIps: ["192.0.2.1"], sourceRanges, ports };
    assert.equal(costOf("a/b", view).elements, 20 + 100 + 255 + 100);
  });

  it("counts the bytes of the line as it is sent", () => {
    const lists = [[], list(1, v4), list(40, v6)];
    for (const endpoints of lists)
      for (const servingEndpoints of [undefined, ...lists]) {
        const ports = [
          { ...port, endpoints, servingEndpoints },
          { ...port, port: 81, endpoints, localEndpoints: endpoints },
        ];
        const view = { clusterIps: ["10.96.0.1"], ports };
        assert.equal(
          costOf("a/b", view).bytes,
          encodeLine({ kind: "service", key: "a/b", view }).length,
        );
      }
  });

  it("counts chains of NodePorts and of session affinity", () => {
    const view = { clusterIps: ["10.96.0.1"], ports: [{ ...port, endpoints: list(10, v4) }] };
    const withNodePort = {
      ...view,
      ports: view.ports.map((each) => ({ ...each, nodePort: 30_080 })),
    };
    assert.equal(costOf("a/b", view).elements, 11);
    assert.equal(costOf("a/b", withNodePort).elements, 41);
    const localPorts = withNodePort.ports.map((each) => ({
      ...each,
      localEndpoints: each.endpoints,
    }));
    const local = { ...view, isExternalLocal: true, ports: localPorts };
    assert.equal(costOf("a/b", local).elements, 61, "of local ones, a cell has its own pod");
    assert.equal(costOf("a/b", { ...view, affinitySeconds: 10 }).elements, 1 + 20 + 10 * 40);
    const both = { ...withNodePort, affinitySeconds: 10, isExternalLocal: true };
    assert.equal(costOf("a/b", both).elements, 1 + 40 + 10 * 40);
    const inside = { ...view, affinitySeconds: 10, isInternalLocal: true };
    assert.equal(costOf("a/b", inside).elements, 1, "no endpoint is on the node");
  });
});
