import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceView } from "@kip/network-view";
import type { Flow } from "./conntrack-messages.ts";
import { Services } from "../services.ts";
import { staleFlows } from "./stale-flows.ts";
import { StaleList } from "./stale-list.ts";

const [a, b] = ["10.1.0.1:53", "10.1.0.2:53"];

function view(endpoints: readonly string[], more: Partial<ServiceView> = {}): ServiceView {
  const port = { name: "", protocol: "UDP", port: 80, nodePort: 30_053, endpoints } as const;
  return { clusterIps: ["10.96.0.1"], ports: [port], ...more };
}

/** A flow that an endpoint answers; without one, it is not translated. */
function flowTo(destination: string, port: number, endpoint?: string): Flow {
  const [replySource = "", replyPort] = (endpoint ?? `${destination}:${port}`).split(":");
  const to = { destination, port, replySource, replyPort: Number(replyPort) };
  return { family: 4, protocol: 17, tuple: Buffer.alloc(0), ...to };
}

type State = ServiceView | undefined;

function listOf(...changes: readonly (readonly [before: State, after: State])[]): StaleList {
  const list = new StaleList();
  for (const [before, after] of changes) {
    const of = (each: State) => ({ view: each, lost: new Set<string>() });
    list.add(staleFlows(of(before), of(after)));
  }
  return list;
}

describe("StaleList", () => {
  it("has flows to endpoints that are gone, at each address and at nodes, and no others", () => {
    const list = listOf([view([a, b], { externalIps: ["192.0.2.1"] }), view([b])]);
    for (const address of ["10.96.0.1", "192.0.2.1"]) {
      assert.ok(list.has(flowTo(address, 80, a)));
      assert.equal(list.has(flowTo(address, 80, b)), address === "192.0.2.1");
    }
    assert.ok(list.has(flowTo("10.0.0.200", 30_053, a)));
    assert.ok(!list.has(flowTo("10.0.0.200", 30_053, b)));
    assert.ok(!list.has(flowTo("203.0.113.9", 30_053)));
    assert.ok(!list.has(flowTo("10.96.0.2", 80, a)));
    assert.ok(!list.has({ ...flowTo("10.96.0.1", 80, a), protocol: 6 }));
  });

  it("has no flows to a Service whose own port has the number of another one's NodePort", () => {
    const services = new Services({ podAddresses: [], nodeAddresses: [], serviceRanges: [] });
    const change = (key: string, next: ServiceView): StaleList => {
      const steps = services.change(new Map([[key, next]]));
      for (let step = steps.next(); ; step = steps.next()) {
        if (step.done !== true) continue;
        const list = new StaleList();
        list.add(step.value.stale);
        return list;
      }
    };
    const port = { name: "", protocol: "UDP", port: 30_053, endpoints: [b] } as const;
    change("ns/a", view([a]));
    change("ns/b", { clusterIps: ["10.96.0.2"], ports: [port] });
    const list = change("ns/a", view([b.replace("53", "54")]));
    assert.ok(list.has(flowTo("10.0.0.200", 30_053, a)));
    assert.ok(!list.has(flowTo("10.96.0.2", 30_053, b)));
  });

  it("has flows that were not translated when the first endpoint comes", () => {
    const list = listOf([view([]), view([a])]);
    assert.ok(list.has(flowTo("10.96.0.1", 80)));
    assert.ok(list.has(flowTo("10.0.0.200", 30_053)));
    assert.ok(!list.has(flowTo("10.96.0.1", 80, a)));
    assert.equal(listOf([view([a]), view([a, b])]).size, 0);
  });

  it("has flows that none of the endpoints answers, of a Service that is new here", () => {
    const list = listOf([undefined, view([a])]);
    assert.ok(list.has(flowTo("10.96.0.1", 80, b)));
    assert.ok(!list.has(flowTo("10.96.0.1", 80, a)));
    assert.ok(listOf([undefined, view([])]).has(flowTo("10.96.0.1", 80, b)));
  });

  it("follows the last of several changes", () => {
    const list = listOf(
      [view([a]), view([b])],
      [view([b]), view([a, b])],
      [view([a, b]), view([a])],
    );
    assert.ok(list.has(flowTo("10.96.0.1", 80, b)));
    assert.ok(!list.has(flowTo("10.96.0.1", 80, a)));
    assert.ok(listOf([view([a]), undefined]).has(flowTo("10.96.0.1", 80, a)));
  });

  it("keeps flows to an endpoint that serves again before they were forgotten", () => {
    const list = listOf([view([a, b]), view([b])]);
    const of = (each: State) => ({ view: each, lost: new Set<string>() });
    list.add(staleFlows(of(view([b])), of(view([a, b])), (to) => list.hasDestination(to)));
    assert.ok(!list.has(flowTo("10.96.0.1", 80, a)));
    assert.ok(!list.has(flowTo("10.0.0.200", 30_053, a)));
    assert.ok(list.has(flowTo("10.96.0.1", 80, "10.1.0.3:53")));
    assert.ok(!list.hasDestination({ address: "10.96.0.2", port: 80 }));
  });

  it("leaves a destination alone that another Service has", () => {
    const lost = new Set(["10.96.0.1 . udp . 80", "udp . 30053"]);
    const before = { view: view([a, b]), lost };
    assert.deepEqual(staleFlows(before, { view: view([b]), lost }), []);
  });

  it("has nothing of TCP, whose connections end by themselves", () => {
    const ofTcp = (endpoints: readonly string[]): ServiceView =>
      view([], { ports: [{ name: "", protocol: "TCP", port: 80, endpoints }] });
    assert.equal(listOf([ofTcp([a]), ofTcp([])]).size, 0);
  });

  it("gives up what has waited longest when it is trimmed", () => {
    const list = new StaleList();
    const of = (address: string) => {
      return { address, port: 53, serving: new Set<string>(), isUntranslatedStale: false };
    };
    const first = of("10.96.0.10");
    const count = 70_000;
    list.add([first, ...Array.from({ length: count }, (_, i) => of(`203.0.${i >> 8}.${i & 255}`))]);
    assert.equal(list.size, count + 1);
    assert.ok(list.hasDestination(first));
    list.trim();
    list.add([of("10.96.0.11")]);
    assert.equal(list.size, 65_537);
    assert.ok(!list.hasDestination(first));
    assert.ok(list.hasDestination(of("10.96.0.11")));
  });

  it("keeps the endpoints of very many addresses once, and looks flows up", () => {
    const endpoints = Array.from({ length: 5000 }, (_, i) => `10.2.${i >> 8}.${i & 255}:53`);
    const externalIps = Array.from({ length: 256 }, (_, i) => `203.0.113.${i}`);
    const list = listOf([
      view([...endpoints, a], { externalIps }),
      view(endpoints, { externalIps }),
    ]);
    const sets = new Set(list.all.map(({ serving }) => serving));
    assert.deepEqual([list.size, sets.size], [258, 2]);
    for (let i = 0; i < 100_000; i++) list.has(flowTo("203.0.113.7", 80, a));
  });
});
