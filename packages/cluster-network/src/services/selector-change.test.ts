import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { ServiceIndex } from "./service-index.ts";

const metadata = { namespace: "ns", name: "web", uid: "1", resourceVersion: "1" };

function service(app: string): StoredService {
  const ports = [{ name: "http", port: 80, protocol: "TCP" as const }];
  return { metadata, spec: { clusterIP: "10.96.0.1", selector: { app }, ports } };
}

interface Conditions {
  readonly ready: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

type Addresses = Readonly<Record<string, Conditions>>;

const up: Conditions = { ready: true };
const ending: Conditions = { ready: false, serving: true, terminating: true };
const starting: Conditions = { ready: false };

function slice(name: string, addresses: Addresses): EndpointSlice {
  const labels = { "kubernetes.io/service-name": "web" };
  return {
    metadata: { ...metadata, name, labels },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: Object.entries(addresses).map(([address, conditions]) => ({
      addresses: [address],
      conditions,
    })),
  };
}

type Event = (index: ServiceIndex) => void;

const is =
  (name: string, addresses: Addresses): Event =>
  (index) =>
    index.setSlice(slice(name, addresses));
const isGone =
  (name: string): Event =>
  (index) =>
    index.setSlice(slice(name, {}), true);

const [a, b] = ["10.1.0.1", "10.1.0.2"];

/** What the controller writes to slices, in an order in which an endpoint can be used at each moment. */
const histories: Readonly<Record<string, readonly Event[]>> = {
  "one slice that is written once": [is("s1", { [b]: up })],
  "one slice that has both first": [is("s1", { [a]: up, [b]: up }), is("s1", { [b]: up })],
  "another slice, and the first is deleted": [is("s2", { [b]: up }), isGone("s1")],
  "another slice, and the first is emptied": [is("s2", { [b]: up }), is("s1", {}), isGone("s1")],
  "the old endpoint ends while the new one starts": [
    is("s1", { [a]: up, [b]: starting }),
    is("s1", { [a]: ending, [b]: starting }),
    is("s2", { [b]: up }),
    is("s1", { [b]: starting }),
    isGone("s1"),
  ],
};

/** All orders of two lists that keep the order of each: two watches. */
function* merged<T>(one: readonly T[], other: readonly T[]): Generator<readonly T[]> {
  const [first, ...rest] = one;
  const [second, ...others] = other;
  if (first === undefined || second === undefined) {
    yield [...one, ...other];
    return;
  }
  for (const each of merged(rest, other)) yield [first, ...each];
  for (const each of merged(one, others)) yield [second, ...each];
}

describe("ServiceIndex while the selector of a Service changes", () => {
  const key = "ns/web";
  const ofService: readonly Event[] = [
    (index) => index.setService(key, service("b")),
    (index) => index.setService(key, { ...service("b"), status: { loadBalancer: {} } }),
  ];
  for (const [history, ofSlices] of Object.entries(histories))
    it(`never has a version without endpoints: ${history}`, () => {
      for (const events of merged(ofSlices, ofService)) {
        const index = new ServiceIndex({ name: "node" });
        index.setService(key, service("a"));
        index.setSlice(slice("s1", { [a]: up }));
        index.takeChanges();
        for (const event of events) {
          event(index);
          for (const [, view] of index.takeChanges())
            assert.equal(view?.ports[0]?.endpoints.length === 0, false);
        }
        assert.deepEqual(index.view(key)?.ports[0]?.endpoints, [`${b}:8080`]);
      }
    });

  it("has one without endpoints only if the slices have none at that moment, as with kube-proxy", () => {
    const index = new ServiceIndex({ name: "node" });
    index.setService(key, service("a"));
    index.setSlice(slice("s1", { [a]: up }));
    index.takeChanges();
    index.setSlice(slice("s1", {}));
    assert.deepEqual(index.takeChanges().get(key)?.ports[0]?.endpoints, []);
  });
});
