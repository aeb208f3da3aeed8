import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { encodeLine } from "@kip/network-view";
import { costOf, maxServicesCost } from "./service-cost.ts";

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
    assert.ok(10_000 * each <= maxServicesCost.elements);
    assert.ok(10_000 * bytes <= maxServicesCost.bytes);
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

  it("counts endpoints of UDP that serve and are not ready once, as cells keep them", () => {
    const of = (count: number) => [{ ...port, endpoints: [], servingEndpoints: list(count, v4) }];
    const view = { clusterIps: ["10.96.0.1"], externalIps: ["192.0.2.1"], ports: of(100) };
    assert.equal(costOf("a/b", view).elements, 1 + 1 + 100);
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
    assert.equal(costOf("a/b", { ...view, affinitySeconds: 10 }).elements, 1 + 160 + 10 * 2);
    const both = { ...withNodePort, affinitySeconds: 10, isExternalLocal: true };
    assert.equal(costOf("a/b", both).elements, 1 + 160 + 20 + 10 * 2);
    const inside = { ...view, affinitySeconds: 10, isInternalLocal: true };
    assert.equal(costOf("a/b", inside).elements, 1, "no endpoint is on the node");
  });
});
