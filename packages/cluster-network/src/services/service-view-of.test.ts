import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeLine, encodeLine } from "@kip/network-view";
import type { Endpoint, EndpointSlice, StoredService } from "@kip/k8s-types/network";
import { ServiceIndex } from "./service-index.ts";
import { isProxied, serviceViewOf } from "./service-view-of.ts";

const node = { name: "kip", zone: "a" };

function service(
  spec: StoredService["spec"] = {},
  more: { name?: string; created?: string; labels?: Record<string, string> } = {},
): StoredService {
  const { name = "web", created = "2026-01-01T00:00:00Z", labels = {} } = more;
  return {
    metadata: {
      namespace: "default",
      name,
      uid: name,
      resourceVersion: "1",
      creationTimestamp: created,
      labels,
    },
    spec: {
      clusterIP: "10.96.0.1",
      clusterIPs: ["10.96.0.1"],
      ports: [{ name: "http", port: 80, protocol: "TCP" }],
      ...spec,
    },
  };
}

function slice(
  endpoints: readonly Endpoint[],
  more: { name?: string; addressType?: string; port?: string; of?: string } = {},
): EndpointSlice {
  const { name = "web-1", addressType = "IPv4", port = "http", of = "web" } = more;
  return {
    metadata: {
      namespace: "default",
      name,
      uid: name,
      resourceVersion: "1",
      labels: { "kubernetes.io/service-name": of },
    },
    addressType,
    ports: [{ name: port, port: 8080, protocol: "TCP" }],
    endpoints,
  };
}

function endpoint(address: string, more: Partial<Endpoint> = {}): Endpoint {
  return { addresses: [address], ...more };
}

function endpoints(...list: readonly Endpoint[]): readonly string[] | undefined {
  return serviceViewOf(service(), [slice(list)], node).ports[0]?.endpoints;
}

describe("serviceViewOf()", () => {
  it("stays within one line for as many ports and endpoints as the API server takes", () => {
    const ports = Array.from({ length: 256 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
    const pods = Array.from({ length: 1000 }, (_, i) => endpoint(`10.1.${i >> 8}.${i & 255}`));
    const all = { ...slice(pods), ports: ports.map((port) => ({ ...port, protocol: "TCP" })) };
    for (const internalTrafficPolicy of ["Cluster", "Local"]) {
      const view = serviceViewOf(service({ ports, internalTrafficPolicy }), [all], node);
      decodeLine(encodeLine({ kind: "service", key: "default/web", view }).trimEnd());
    }
  });

  it("reads a bounded number of endpoints, each once for all ports, and the same ones in whatever order slices come", () => {
    const ports = Array.from({ length: 100 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
    const ofSlices = ports.map((port) => ({ ...port, protocol: "TCP" }));
    let reads = 0;
    const one = (text: string): Endpoint => ({
      get addresses() {
        reads += 1;
        return [text];
      },
    });
    const slices = Array.from({ length: 20 }, (_, k) => {
      const list = Array.from({ length: 500 }, (__, i) => one(`10.${k}.${i >> 8}.${i & 255}`));
      return { ...slice(list, { name: `web-${String(k).padStart(2, "0")}` }), ports: ofSlices };
    });
    const view = serviceViewOf(service({ ports }), slices, node);
    assert.ok(reads <= 1000, String(reads));
    assert.equal(view.ports[0]?.endpoints.length, 360);
    assert.deepEqual(serviceViewOf(service({ ports }), slices.toReversed(), node), view);
  });

  it("has no more endpoints of a Service with session affinity than a small cell can make rules for", () => {
    const many = Array.from({ length: 3000 }, (_, i) => ({
      addresses: [`10.0.${i >> 8}.${i & 255}`],
    }));
    const countOf = (spec: StoredService["spec"]): number | undefined =>
      serviceViewOf(service(spec), [slice(many)], node).ports[0]?.endpoints.length;
    assert.equal(countOf({}), 3000);
    assert.equal(countOf({ sessionAffinity: "ClientIP" }), 2000);
    const isLocal = { sessionAffinity: "ClientIP", internalTrafficPolicy: "Local" } as const;
    assert.equal(countOf(isLocal), 1000);
  });

  it("has no more external addresses than a small cell can make rules for, with each port", () => {
    const externalIPs = Array.from({ length: 256 }, (_, i) => `192.168.0.${i}`);
    const countOf = (count: number): number | undefined => {
      const ports = Array.from({ length: count }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
      return serviceViewOf(service({ ports, externalIPs }), [], node).externalIps?.length;
    };
    assert.equal(countOf(4), 256);
    assert.equal(countOf(256), 4);
  });

  it("leaves out ports that a slice may not have", () => {
    for (const port of [0, 70_000]) {
      const wrong = {
        ...slice([endpoint("10.1.0.1")]),
        ports: [{ name: "http", port, protocol: "TCP" }],
      };
      assert.deepEqual(serviceViewOf(service(), [wrong], node).ports[0]?.endpoints, []);
    }
  });

  it("takes an endpoint without conditions as ready", () => {
    assert.deepEqual(endpoints(endpoint("10.0.0.1")), ["10.0.0.1:8080"]);
  });

  it("takes endpoints that terminate and still serve only if none is ready", () => {
    const terminating = endpoint("10.0.0.1", {
      conditions: { ready: false, serving: true, terminating: true },
    });
    const ended = endpoint("10.0.0.2", {
      conditions: { ready: false, serving: false, terminating: true },
    });
    const starting = endpoint("10.0.0.3", { conditions: { ready: false, serving: false } });
    assert.deepEqual(endpoints(terminating, ended, starting), ["10.0.0.1:8080"]);
    assert.deepEqual(endpoints(terminating, endpoint("10.0.0.4")), ["10.0.0.4:8080"]);
  });

  it("takes of two pods with one address the one that does not terminate", () => {
    const old = endpoint("10.1.0.1", {
      conditions: { ready: false, serving: true, terminating: true },
    });
    const of = (ready: boolean) => [
      slice([endpoint("10.1.0.1", { conditions: { ready, serving: ready } })], { name: "web-2" }),
      slice([old]),
    ];
    const endpointsOf = (slices: readonly EndpointSlice[]) =>
      serviceViewOf(service(), slices, node).ports[0]?.endpoints;
    for (const slices of [of(false), of(false).toReversed()])
      assert.deepEqual(endpointsOf(slices), []);
    assert.deepEqual(endpointsOf(of(true)), ["10.1.0.1:8080"]);
    assert.deepEqual(endpointsOf([slice([old])]), ["10.1.0.1:8080"]);
  });

  it("leaves out slices of headless Services", () => {
    const list = slice([endpoint("10.1.0.1")]);
    const labels = { ...list.metadata.labels, "service.kubernetes.io/headless": "" };
    const headless = { ...list, metadata: { ...list.metadata, labels } };
    assert.deepEqual(serviceViewOf(service(), [headless], node).ports[0]?.endpoints, []);
  });

  it("takes an endpoint that does not say whether it serves as one that does, as the API says", () => {
    const ending = endpoint("10.0.0.1", { conditions: { ready: false, terminating: true } });
    assert.deepEqual(endpoints(ending), ["10.0.0.1:8080"]);
    const waiting = endpoint("10.0.0.2", { conditions: { ready: false } });
    assert.deepEqual(endpoints(ending, waiting), ["10.0.0.1:8080"]);
  });

  it("names endpoints of UDP that serve and get no new clients, whatever the reason", () => {
    const udp = { name: "http", port: 80, protocol: "UDP" };
    const conditions = { ready: false, serving: true, terminating: true };
    const list = [
      endpoint("10.0.0.1", { hints: { forZones: [{ name: "a" }] } }),
      endpoint("10.0.0.2", { hints: { forZones: [{ name: "b" }] } }),
      endpoint("10.0.0.3", { conditions }),
      endpoint("10.0.0.4", { conditions: { ready: false, serving: false } }),
    ];
    const slices = [{ ...slice(list), ports: [{ ...udp, port: 8080 }] }];
    const [port] = serviceViewOf(service({ ports: [udp] }), slices, node).ports;
    assert.deepEqual(port?.endpoints, ["10.0.0.1:8080"]);
    assert.deepEqual(port.servingEndpoints, ["10.0.0.2:8080", "10.0.0.3:8080"]);
    assert.equal(
      serviceViewOf(service(), [slice(list)], node).ports[0]?.servingEndpoints,
      undefined,
    );
  });

  it("reads a bounded number of ports of slices, and the same ones in whatever order slices come", () => {
    let reads = 0;
    const ports = Array.from({ length: 20_000 }, (_, i) => ({
      get name() {
        reads++;
        return i === 19_999 ? "http" : `p${i}`;
      },
      port: 8080,
    }));
    const slices = Array.from({ length: 9 }, (_, k) => ({
      ...slice([endpoint(`10.1.0.${k}`)], { name: `web-${k}` }),
      ports,
    }));
    const view = serviceViewOf(service(), slices, node);
    assert.ok(reads <= 72_000, String(reads));
    assert.deepEqual(view.ports[0]?.endpoints, ["10.1.0.0:8080", "10.1.0.1:8080", "10.1.0.2:8080"]);
    assert.deepEqual(serviceViewOf(service(), slices.toReversed(), node), view);
  });

  it("gathers ports by their names from slices of both families, each endpoint once", () => {
    const view = serviceViewOf(
      service({ clusterIPs: ["10.96.0.1", "FD00::1"] }),
      [
        slice([endpoint("10.0.0.2"), endpoint("10.0.0.1")]),
        slice([endpoint("10.0.0.2")], { name: "web-2" }),
        slice([endpoint("fd00:1::1")], { name: "web-3", addressType: "IPv6" }),
        slice([endpoint("example.com")], { name: "web-4", addressType: "FQDN" }),
        slice([endpoint("10.0.0.9")], { name: "web-5", port: "other" }),
      ],
      node,
    );
    assert.deepEqual(view.clusterIps, ["10.96.0.1", "fd00::1"]);
    assert.deepEqual(view.ports[0]?.endpoints, [
      "10.0.0.1:8080",
      "10.0.0.2:8080",
      "[fd00:1::1]:8080",
    ]);
  });

  it("decides for each IP version alone which endpoints serve, and whether hints count", () => {
    const ending = { ready: false, serving: true, terminating: true };
    const four = [endpoint("10.0.0.1", { conditions: ending })];
    const hinted = (zone: string) => ({ hints: { forZones: [{ name: zone }] } });
    const six = [endpoint("fd00::1", hinted("a")), endpoint("fd00::2", hinted("b"))];
    const ofSix = slice(six, { name: "web-2", addressType: "IPv6" });
    const lists = (ofFour: readonly Endpoint[]) =>
      serviceViewOf(service(), [slice(ofFour), ofSix], node).ports[0]?.endpoints;
    assert.deepEqual(lists(four), ["10.0.0.1:8080", "[fd00::1]:8080"]);
    assert.deepEqual(lists([endpoint("10.0.0.2")]), ["10.0.0.2:8080", "[fd00::1]:8080"]);
  });

  it("follows hints for the zone only if every ready endpoint has one", () => {
    const near = endpoint("10.0.0.1", { hints: { forZones: [{ name: "a" }] } });
    const far = endpoint("10.0.0.2", { hints: { forZones: [{ name: "b" }] } });
    assert.deepEqual(endpoints(near, far), ["10.0.0.1:8080"]);
    assert.equal(endpoints(near, far, endpoint("10.0.0.3"))?.length, 3);
    assert.equal(endpoints(far)?.length, 1);
  });

  it("prefers hints for the node to those for the zone", () => {
    const hints = { forZones: [{ name: "a" }] };
    const here = endpoint("10.0.0.1", { hints: { ...hints, forNodes: [{ name: "kip" }] } });
    const there = endpoint("10.0.0.2", { hints: { ...hints, forNodes: [{ name: "other" }] } });
    assert.deepEqual(endpoints(here, there), ["10.0.0.1:8080"]);
  });

  it("counts ready endpoints on the node for the health checks of a load balancer", () => {
    const on = (nodeName: string, ready: boolean, terminating = false): Partial<Endpoint> => ({
      nodeName,
      conditions: { ready, serving: true, terminating },
    });
    const v4 = [
      endpoint("10.0.0.1", on("kip", true)),
      endpoint("10.0.0.2", on("kip", true)),
      endpoint("10.0.0.3", on("kip", false, true)),
      endpoint("10.0.0.4", on("other", true)),
    ];
    const v6 = [endpoint("fd00::1", on("kip", true)), endpoint("fd00::2", on("kip", true))];
    const ports = [
      { name: "http", port: 80, protocol: "TCP" },
      { name: "https", port: 443, protocol: "TCP" },
    ];
    const slices = [
      slice(v4),
      slice(v4, { name: "web-2", port: "https" }),
      slice(v6, { name: "web-3", addressType: "IPv6" }),
    ];
    const local = { type: "LoadBalancer", externalTrafficPolicy: "Local", ports };
    const of = (spec: StoredService["spec"], list = slices) => {
      const view = serviceViewOf(service(spec), list, node);
      const line = encodeLine({ kind: "service", key: "default/web", view }).trimEnd();
      const read = decodeLine(line);
      assert.ok(read.kind === "service");
      return read.view?.healthCheck;
    };
    const healthCheckNodePort = 30_001;
    assert.deepEqual(of({ ...local, healthCheckNodePort }), { port: 30_001, localReady: 2 });
    const draining = [slice(v4.slice(2))];
    assert.deepEqual(of({ ...local, healthCheckNodePort }, draining)?.localReady, 0);
    assert.equal(of(local), undefined);
    assert.equal(of({ ...local, type: "NodePort", healthCheckNodePort }), undefined);
    const everywhere = { ...local, externalTrafficPolicy: "Cluster", healthCheckNodePort };
    assert.equal(of(everywhere), undefined);
  });

  it("gives endpoints on the node if a traffic policy is local", () => {
    const list = [endpoint("10.0.0.1", { nodeName: "kip" }), endpoint("10.0.0.2")];
    const view = serviceViewOf(service({ internalTrafficPolicy: "Local" }), [slice(list)], node);
    assert.equal(view.isInternalLocal, true);
    assert.deepEqual(view.ports[0]?.localEndpoints, ["10.0.0.1:8080"]);
    assert.equal(view.ports[0]?.endpoints.length, 2);
  });

  it("leaves out as many endpoints of IPv4 as of IPv6 if there are too many", () => {
    const count = 1500; // a Service with session affinity may have 2,000
    const list = (address: (i: number) => string): readonly Endpoint[] =>
      Array.from({ length: count }, (_, i) => ({ addresses: [address(i + 1)] }));
    const [v4, v6] = [
      list((i) => `10.1.${i >> 8}.${i & 255}`),
      list((i) => `fd00::${i.toString(16)}`),
    ];
    const viewOf = (...slices: readonly EndpointSlice[]) =>
      serviceViewOf(service({ sessionAffinity: "ClientIP" }), slices, node).ports[0]?.endpoints ??
      [];
    const second = { name: "web-2", addressType: "IPv6" };
    const both = viewOf(slice(v4), slice(v6, second));
    assert.equal(both.filter((text) => text.startsWith("[")).length, 1000);
    assert.equal(both.length, 2000);
    assert.equal(viewOf(slice(v4), slice(v6.slice(0, 600), second)).length, 2000);
    assert.equal(viewOf(slice(v4.slice(0, 10)), slice(v6, second)).length, 1510);
  });

  it("reads zeros before the numbers of addresses, and IPv4 in IPv6, as kube-proxy does", () => {
    const ingress = [{ ip: "198.051.100.001" }];
    const written = {
      ...service({
        clusterIPs: ["010.096.0.1"],
        externalIPs: ["192.000.002.001", "::ffff:192.0.2.2"],
        loadBalancerSourceRanges: ["010.0.0.0/08", "::ffff:192.0.2.0/120"],
      }),
      status: { loadBalancer: { ingress } },
    };
    const slices = [slice([endpoint("010.01.0.7")])];
    const view = serviceViewOf(written, slices, node);
    assert.deepEqual(view.clusterIps, ["10.96.0.1"]);
    assert.deepEqual(view.externalIps, ["192.0.2.1", "192.0.2.2"]);
    assert.deepEqual(view.loadBalancerIps, ["198.51.100.1"]);
    assert.deepEqual(view.sourceRanges, ["10.0.0.0/8", "192.0.2.0/24"]);
    assert.deepEqual(view.ports[0]?.endpoints, ["10.1.0.7:8080"]);
  });

  it("opens a load balancer to nothing for source ranges that it leaves out", () => {
    const rangesOf = (...loadBalancerSourceRanges: readonly string[]): readonly string[] =>
      serviceViewOf(service({ loadBalancerSourceRanges }), [], node).sourceRanges ?? [];
    assert.deepEqual(rangesOf("10.0.0.0/33"), ["0.0.0.0/32", "::/128"]);
    assert.deepEqual(rangesOf("ten", "10.0.0.0/8"), ["0.0.0.0/32", "::/128", "10.0.0.0/8"]);
    const many = Array.from({ length: 256 }, (_, i) => `10.${i}.0.0/16`);
    assert.deepEqual(rangesOf(...many), many);
  });

  it("leaves out source ranges that others hold first, and then of each IP version alone", () => {
    const rangesOf = (...loadBalancerSourceRanges: readonly string[]): readonly string[] =>
      serviceViewOf(service({ loadBalancerSourceRanges }), [], node).sourceRanges ?? [];
    const many = Array.from({ length: 300 }, (_, i) => `10.${i >> 8}.${i & 255}.0/24`);
    assert.deepEqual(rangesOf(...many, "10.0.0.0/15", "fd00::/64"), ["10.0.0.0/15", "fd00::/64"]);
    assert.deepEqual(rangesOf(...many), many.slice(0, 256));
    assert.deepEqual(rangesOf(...many, "fd00::/64"), [...many.slice(0, 255), "fd00::/64"]);
    assert.deepEqual(rangesOf(...many, "ten").slice(-2), ["10.0.253.0/24", "::/128"]);
    assert.equal(rangesOf(...many, "ten")[0], "0.0.0.0/32");
  });

  it("looks at the first 4,096 source ranges alone, and opens a load balancer to none of the others", () => {
    const rangesOf = (...loadBalancerSourceRanges: readonly string[]): readonly string[] =>
      serviceViewOf(service({ loadBalancerSourceRanges }), [], node).sourceRanges ?? [];
    const same = Array.from({ length: 4096 }, () => "10.0.0.0/8");
    assert.deepEqual(rangesOf(...same), ["10.0.0.0/8"]);
    assert.deepEqual(rangesOf(...same, "11.0.0.0/8", "fd00::/64"), [
      "0.0.0.0/32",
      "10.0.0.0/8",
      "::/128",
    ]);
  });

  it("looks at the first 1,024 external addresses alone: users decide how many there are", () => {
    let read = 0;
    const externalIPs = new Proxy(
      Array.from({ length: 5000 }, (_, i) => `192.0.${i >> 8}.${i & 255}`),
      {
        get(target, name, receiver) {
          if (typeof name === "string" && /^\d+$/.test(name)) read++;
          return Reflect.get(target, name, receiver) as unknown;
        },
      },
    );
    const view = serviceViewOf(service({ clusterIPs: ["10.96.0.1"], externalIPs }), [], node);
    assert.equal(view.externalIps?.length, 256);
    assert.equal(read, 1024);
  });

  it("leaves out external addresses of an IP version that the Service has no cluster IP of, before it counts them", () => {
    const many = Array.from({ length: 300 }, (_, i) => `192.0.${i >> 8}.${i & 255}`);
    const ingress = [...many, "2001:db8::2"].map((ip) => ({ ip }));
    const viewOf = (...clusterIPs: readonly string[]) => {
      const written = service({ clusterIPs, externalIPs: ["192.0.2.1", "2001:db8::1"] });
      return serviceViewOf({ ...written, status: { loadBalancer: { ingress } } }, [], node);
    };
    assert.deepEqual(viewOf("fd00::1").externalIps, ["2001:db8::1"]);
    assert.deepEqual(viewOf("fd00::1").loadBalancerIps, ["2001:db8::2"]);
    assert.deepEqual(viewOf("10.96.0.1").externalIps, ["192.0.2.1"]);
    assert.equal(viewOf("10.96.0.1", "fd00::1").externalIps?.length, 2);
  });

  it("leaves out addresses of load balancers that act as proxies", () => {
    const withStatus = {
      ...service({ type: "LoadBalancer", loadBalancerSourceRanges: [" 10.1.2.3/8 "] }),
      status: {
        loadBalancer: {
          ingress: [{ ip: "192.0.2.1" }, { ip: "192.0.2.2", ipMode: "Proxy" }, { hostname: "x" }],
        },
      },
    };
    const view = serviceViewOf(withStatus, [], node);
    assert.deepEqual(view.loadBalancerIps, ["192.0.2.1"]);
    assert.deepEqual(view.sourceRanges, ["10.0.0.0/8"]);
  });

  it("has an affinity of three hours if the Service names no time", () => {
    assert.equal(
      serviceViewOf(service({ sessionAffinity: "ClientIP" }), [], node).affinitySeconds,
      10_800,
    );
  });
});

describe("isProxied()", () => {
  it("leaves out headless and external Services and those of another proxy", () => {
    assert.equal(isProxied(service()), true);
    assert.equal(isProxied(service({ clusterIP: "None" })), false);
    assert.equal(isProxied(service({ clusterIP: "" })), false);
    assert.equal(isProxied(service({ type: "ExternalName" })), false);
    const labelled = (label: string) =>
      isProxied(service({}, { labels: { [`service.kubernetes.io/${label}`]: "" } }));
    assert.equal(labelled("service-proxy-name"), false);
    assert.equal(labelled("headless"), true);
  });
});

describe("ServiceIndex", () => {
  it("gives only Services that have changed", () => {
    const index = new ServiceIndex(node);
    index.setService("default/a", service({}, { name: "a" }));
    index.setService("default/b", service({ clusterIPs: ["10.96.0.2"] }, { name: "b" }));
    assert.deepEqual([...index.takeChanges().keys()], ["default/a", "default/b"]);
    index.setSlice(slice([endpoint("10.0.0.1")], { of: "b" }));
    assert.deepEqual([...index.takeChanges().keys()], ["default/b"]);
    index.setService("default/b", undefined);
    assert.deepEqual(index.takeChanges(), new Map([["default/b", undefined]]));
    assert.deepEqual(index.takeChanges(), new Map());
  });

  it("takes a slice from its Service when it is labelled for another one, or for none, and keeps nothing of it", () => {
    const index = new ServiceIndex(node);
    const pods = [endpoint("10.0.0.1")];
    for (const name of ["web", "db"]) index.setService(`default/${name}`, service({}, { name }));
    const count = (key: string) => index.view(key)?.ports[0]?.endpoints.length;
    const counts = () => ["default/web", "default/db"].map(count);
    index.setSlice(slice(pods));
    assert.deepEqual(counts(), [1, 0]);
    index.takeChanges();
    const ofDb = slice(pods, { of: "db" });
    index.setSlice(ofDb);
    assert.deepEqual(counts(), [0, 1]);
    assert.deepEqual([...index.takeChanges().keys()].sort(), ["default/db", "default/web"]);
    index.setSlice({ ...ofDb, metadata: { ...ofDb.metadata, labels: {} } });
    assert.deepEqual(counts(), [0, 0]);
    index.setSlice(slice(pods));
    index.setSlice(slice(pods), true);
    assert.deepEqual(counts(), [0, 0]);
  });

  it("gives an external address that several Services name to the oldest, and a cluster IP to no other", () => {
    const index = new ServiceIndex(node);
    const externalIPs = ["192.0.2.1", "10.96.0.1"];
    index.setService("default/web", service());
    index.setService(
      "default/new",
      service({ clusterIPs: ["10.96.0.2"], externalIPs }, { name: "new", created: "2026-03" }),
    );
    assert.deepEqual(index.takeChanges().get("default/new")?.externalIps, ["192.0.2.1"]);
    index.setService(
      "default/old",
      service({ clusterIPs: ["10.96.0.3"], externalIPs }, { name: "old", created: "2026-02" }),
    );
    const changes = index.takeChanges();
    assert.deepEqual(changes.get("default/old")?.externalIps, ["192.0.2.1"]);
    assert.ok(changes.has("default/new"));
    assert.equal(changes.get("default/new")?.externalIps, undefined);
    index.setService("default/old", undefined);
    assert.deepEqual([...index.takeChanges()], [["default/old", undefined]]);
    assert.deepEqual(index.takeChanges().get("default/new")?.externalIps, ["192.0.2.1"]);
  });
});
