import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bucketOf, encodeLine, limits, TableDigest, type ServiceView } from "@kip/network-view";
import { arrange } from "./arrange.ts";
import { blockWork } from "./in-blocks.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { Services } from "./services.ts";
import { rebuilt, resultOf } from "./testing/steps.ts";

const place: RoutingPlace = {
  podAddresses: ["10.1.0.2"],
  nodeAddresses: [],
  serviceRanges: [],
};

function view(endpoints: readonly string[], protocol: "TCP" | "UDP" = "TCP"): ServiceView {
  return { clusterIps: ["10.96.0.1"], ports: [{ name: "", protocol, port: 80, endpoints }] };
}

describe("Services", () => {
  const many = (count: number): Services => {
    const services = new Services(place);
    const all = Array.from({ length: count }, (_, i) => {
      const address = `10.${96 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
      return [
        `ns/s${i}`,
        { ...view(["10.1.0.1:80", "10.1.0.2:80"]), clusterIps: [address] },
      ] as const;
    });
    resultOf(services.change(new Map(all)));
    return services;
  };

  it("has rules of the families that the pod has addresses of, and of both without a pod", () => {
    const textOf = (podAddresses: readonly string[]): string =>
      rebuilt(new Services({ ...place, podAddresses })).join("");
    assert.doesNotMatch(textOf(["10.1.0.2"]), /table ip6/);
    for (const both of [["10.1.0.2", "fd00::2"], []]) assert.match(textOf(both), /table ip6/);
  });

  it("changes one endpoint by two elements, whatever the number of Services", () => {
    const next = { ...view(["10.1.0.3:80", "10.1.0.2:80"]), clusterIps: ["10.96.0.5"] };
    const [few, more] = [10, 1000].map((count) =>
      resultOf(many(count).change(new Map([["ns/s5", next]]))),
    );
    assert.equal(
      few?.texts.join(""),
      "delete element ip kip_services_a endpoints { 10.96.0.5 . tcp . 80 . 0 }\n" +
        "add element ip kip_services_a endpoints { 10.96.0.5 . tcp . 80 . 0 : 10.1.0.3 . 80 }\n",
    );
    assert.deepEqual(more?.texts, few?.texts);
  });

  it("changes one endpoint of each family by two elements, whatever else is in the other family", () => {
    const of = (v4: readonly number[], v6: readonly number[]): ServiceView => ({
      clusterIps: ["10.96.0.1", "fd00::1"],
      ports: [
        {
          name: "",
          protocol: "TCP",
          port: 80,
          endpoints: [...v4.map((i) => `10.1.0.${i}:80`), ...v6.map((i) => `[fd00::${i}]:80`)],
        },
      ],
    });
    const services = new Services({ ...place, podAddresses: [] });
    resultOf(services.change(new Map([["ns/a", of([1, 2, 3], [11, 12, 13])]])));
    const { texts } = resultOf(services.change(new Map([["ns/a", of([2, 3, 4], [12, 13, 14])]])));
    const elements = texts.join("").match(/fd00::1 \. tcp[^,}]*|10\.96\.0\.1 \. tcp[^,}]*/g);
    assert.equal(elements?.length, 4, texts.join(""));
  });

  it("looks at few endpoints at a time, and writes only what differs of a Service of the largest size", () => {
    const ports = 8;
    const each = limits.serviceEndpoints / ports;
    const of = (skipped: number): ServiceView => ({
      clusterIps: ["10.96.0.1"],
      ports: Array.from({ length: ports }, (_, port) => ({
        name: `p${port}`,
        protocol: "TCP",
        port: 80 + port,
        endpoints: Array.from({ length: each + 1 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`)
          .filter((_, i) => i !== skipped)
          .sort(),
      })),
    });
    const services = new Services(place);
    resultOf(services.change(new Map([["ns/a", of(7)]])));
    const steps = services.change(new Map([["ns/a", of(9)]]));
    let count = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) count++;
    assert.ok(count >= 2 * ports, String(count));
    assert.equal(step.value.texts.join("").match(/10\.96\.0\.1 /g)?.length, 2 * ports);
  });

  it("looks at few addresses at a time of Services with very many", () => {
    const count = 20;
    const of = (net: number): ReadonlyMap<string, ServiceView> =>
      new Map(
        Array.from({ length: count }, (_, i) => {
          const externalIps = Array.from({ length: 256 }, (_, k) => `203.${net}.${i}.${k}`);
          const ports = [80, 81, 82, 83].map((port) => {
            return { name: `p${port}`, protocol: "TCP", port, endpoints: [] } as const;
          });
          return [`ns/s${i}`, { clusterIps: [`10.96.0.${i}`], externalIps, ports }] as const;
        }),
      );
    const services = new Services(place);
    resultOf(services.change(of(0)));
    const steps = services.change(of(1));
    let [sum, most] = [0, 0];
    for (let step = steps.next(); step.done !== true; step = steps.next()) {
      sum += step.value;
      most = Math.max(most, step.value);
    }
    assert.ok(sum >= 2 * 4 * 256 * count, String(sum));
    assert.ok(most < 2 * blockWork, String(most));
  });

  it("has no NodePort in a family that the Service has no cluster IP of", () => {
    const ports = [
      { name: "", protocol: "TCP", port: 80, nodePort: 30_080, endpoints: [] },
    ] as const;
    const services = new Services({ ...place, podAddresses: [] });
    const single = { clusterIps: ["10.96.0.1"], ports };
    const { texts } = resultOf(services.change(new Map([["ns/a", single]])));
    assert.match(texts.join(""), /^add element ip kip_services_a refused_nodeports .*30080/m);
    assert.doesNotMatch(texts.join(""), /ip6 kip_services_a refused_nodeports .*30080/);
  });

  it("names chains and sets of Services with long names so that no two share one, and nft takes the names", () => {
    const [namespace, name] = ["n".repeat(63), "s".repeat(63)];
    const address = "fd00:1111:2222:3333:4444:5555:6666:7777";
    const port = { name: "", protocol: "SCTP", port: 65_535, nodePort: 32_767 } as const;
    const long: ServiceView = {
      clusterIps: ["fd00:96::a"],
      affinitySeconds: 86_400,
      ports: [{ ...port, endpoints: [`[${address}]:65535`] }],
    };
    const namesOf = (key: string): readonly string[] => {
      const services = new Services({ ...place, podAddresses: [] });
      const { texts } = resultOf(services.change(new Map([[key, long]])));
      const found = texts.join("").matchAll(/^add (?:chain|map) ip6 kip_services_a (\S+)/gm);
      return [...found]
        .map(([, found = ""]) => found)
        .filter((each) => !each.startsWith("balance"));
    };
    const names = namesOf(`${namespace}/${name}`);
    assert.equal(names.length, 4);
    // 128 bits: who writes Services would find two with 64 bits of one hash in minutes.
    for (const each of names) assert.match(each, /\.[0-9a-f]{32}(\/|$)/);
    for (const each of names) assert.ok(each.length <= 127, each);
    const others = namesOf(`${namespace}/${name.slice(1)}t`);
    assert.ok(others.every((each) => !names.includes(each)));
  });

  it("has no chains in a family that the Service has no address of", () => {
    const services = new Services({ ...place, podAddresses: [] });
    const both = { ...view(["10.1.0.1:80", "[fd00::1]:80"]), affinitySeconds: 10 };
    const { texts } = resultOf(services.change(new Map([["ns/a", both]])));
    assert.match(texts.join(""), /^add chain ip kip_services_a all/m);
    assert.doesNotMatch(texts.join(""), /ip6/);
  });

  it("leads a router's clients to all endpoints with externalTrafficPolicy Local, and keeps their affinity", () => {
    const port = { name: "", protocol: "TCP", port: 80, nodePort: 30_080 } as const;
    const endpoints = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80"];
    const rulesOf = (localEndpoints: readonly string[], affinitySeconds?: number): string => {
      const ports = [{ ...port, endpoints, localEndpoints }];
      const isLocal = { clusterIps: ["10.96.0.1"], isExternalLocal: true };
      const router = { ...place, podAddresses: [], clients: ["10.9.0.1"] };
      const changes = new Map([["ns/a", { ...isLocal, affinitySeconds, ports }]]);
      return resultOf(new Services(router).change(changes)).texts.join("");
    };
    for (const local of [[], endpoints.slice(0, 2)]) {
      const [plain, kept] = [rulesOf(local), rulesOf(local, 10)];
      for (const text of [plain, kept])
        assert.match(text, /nodeports \{ tcp \. 30080 : goto all\/ns\/a\/tcp-80 \}/);
      assert.match(plain, /rule ip kip_services_a all\S+ meta l4proto tcp dnat .* mod 3 map/);
      assert.match(kept, /rule ip kip_services_a all\S+ .* mod 3 meta mark .* timeout 10s/);
      assert.equal(
        kept.match(/endpoints\/all\S+ \{ .* : 10\.1\.0\..*\}/)?.[0].split(",").length,
        3,
      );
    }
  });

  it("leads others to the pod itself with externalTrafficPolicy Local only if its endpoint is on the node", () => {
    const port = { name: "", protocol: "TCP", port: 80, nodePort: 30_080 } as const;
    const rulesOf = (localEndpoints: readonly string[]): string => {
      const ports = [{ ...port, endpoints: ["10.1.0.2:80", "10.1.0.3:80"], localEndpoints }];
      const isLocal = { clusterIps: ["10.96.0.1"], isExternalLocal: true, ports };
      return resultOf(new Services(place).change(new Map([["ns/a", isLocal]]))).texts.join("");
    };
    assert.match(rulesOf(["10.1.0.2:80"]), /external\S+ meta l4proto tcp dnat .* mod 1 map/);
    assert.match(rulesOf([]), /external\S+ drop$/m);
  });

  it("gives an endpoint another number while a second endpoint has the same hash", () => {
    const [first, second] = ["10.50.36.246:8443", "10.50.48.55:8080"];
    const others = Array.from({ length: 24 }, (_, i) => `10.60.0.${i + 1}:80`);
    const services = new Services(place);
    const change = (endpoints: readonly string[]): string => {
      const next = { ...view(endpoints), affinitySeconds: 10 };
      return resultOf(services.change(new Map([["ns/a", next]]))).texts.join("");
    };
    const added = /^add element .* endpoints\/all\S+ \{ .*10\.50\.48\.55 \. 8080/m;
    assert.match(change([second, ...others]), added);
    assert.match(change([second, ...others, first]), added);
    assert.match(change([second, ...others]), added);
  });

  it("changes the time of session affinity by the rules of a port, and an endpoint with it by four elements", () => {
    const all = Array.from(
      { length: limits.affinityEndpoints },
      (_, i) => `10.1.${i >> 8}.${i & 255}:80`,
    );
    const of = (endpoints: readonly string[], affinitySeconds: number): ServiceView => ({
      ...view(endpoints),
      affinitySeconds,
    });
    const services = new Services(place);
    const change = (next: ServiceView): readonly string[] =>
      resultOf(services.change(new Map([["ns/a", next]])))
        .texts.join("")
        .trim()
        .split("\n");
    change(of(all.slice(1), 10));
    const later = change(of(all.slice(1), 20));
    assert.equal(later.length, 5);
    for (const line of later) assert.match(line, /^(flush chain|add rule) ip kip_services_a all/);
    const moved = change(of(all.slice(0, -1), 20));
    assert.equal(moved.length, 4);
    for (const line of moved)
      assert.match(
        line,
        /^(delete|add) element ip kip_services_a (picks|endpoints)\/all\S+ \{ [^,]* \}$/,
      );
  });

  it("removes shared chains that no Service leads to when there are many, and keeps a few", () => {
    const services = new Services(place);
    const changed = (count: number, name = "a"): string => {
      const endpoints = Array.from({ length: count }, (_, i) => `10.1.0.${i}:80`);
      const next = { ...view(endpoints), clusterIps: [`10.96.0.${name === "a" ? 1 : 2}`] };
      return resultOf(services.change(new Map([[`ns/${name}`, next]]))).texts.join("");
    };
    changed(3, "b");
    for (let count = 1; count <= 66; count++)
      assert.doesNotMatch(changed(count), /delete chain/, String(count));
    const text = changed(67);
    assert.equal(text.match(/^delete chain ip kip_services_a balance/gm)?.length, 65);
    assert.doesNotMatch(text, /delete chain \S+ \S+ balance\/(3|67)$/m);
  });

  it("names the Services of a bucket", () => {
    const services = many(3);
    resultOf(services.change(new Map([["ns/s1", undefined]])));
    const named = ["ns/s0", "ns/s1", "ns/s2"].filter((key) =>
      [...services.keysOf(bucketOf(key))].includes(key),
    );
    assert.deepEqual(named, ["ns/s0", "ns/s2"]);
  });

  it("writes nothing for a Service that is as before, in whatever order its endpoints come", () => {
    const services = many(3);
    const same = { ...view(["10.1.0.2:80", "10.1.0.1:80"]), clusterIps: ["10.96.0.1"] };
    assert.deepEqual(resultOf(services.change(new Map([["ns/s1", same]]))).texts, []);
  });

  it("has endpoints once for all external addresses of a Service, and source ranges once for all ports", () => {
    const endpoints = Array.from({ length: 1000 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`);
    const addresses = Array.from({ length: 200 }, (_, i) => `192.0.2.${i}`);
    const textOf = (more: Partial<ServiceView>): string =>
      resultOf(
        new Services(place).change(new Map([["ns/s", { ...view(endpoints), ...more }]])),
      ).texts.join("");
    const http = { protocol: "TCP", endpoints: [] } as const;
    const countOf = (text: string, part: string): number => text.split(part).length - 1;
    assert.equal(countOf(textOf({ externalIps: addresses }), "10.1.3.1 . 80"), 2);
    const ports = addresses.map((name, i) => ({ ...http, name, port: i + 1 }));
    const sourceRanges = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24"];
    const text = textOf({ ports, loadBalancerIps: ["198.51.100.1"], sourceRanges });
    assert.match(text, / sources\/ns\/s ip saddr != \{ 10\.0\.0\.0\/8, 192\.0\.2\.0\/24 \} drop$/m);
    assert.equal(countOf(text, "192.0.2.0/24"), 1);
  });

  it("has the sums of the lines that were sent, whatever order it keeps", () => {
    const services = many(0);
    resultOf(services.change(new Map([["ns/a", view(["10.1.0.1:80", "10.1.0.9:80"])]])));
    resultOf(services.change(new Map([["ns/a", view(["10.1.0.5:80", "10.1.0.9:80"])]])));
    const digest = new TableDigest();
    const last = view(["10.1.0.5:80", "10.1.0.9:80"]);
    digest.change("ns/a", undefined, encodeLine({ kind: "service", key: "ns/a", view: last }));
    assert.deepEqual(services.sums, digest.sums);
  });

  it("fills a new table in parts, puts it in force, and then removes the old one", () => {
    const texts = rebuilt(many(10_000), "kip_services_a");
    assert.ok(Math.max(...texts.map((text) => text.length)) < 400_000);
    assert.ok(texts.slice(0, -2).every((text) => !text.includes("hook")));
    assert.match(texts.at(-2) ?? "", /hook prerouting/);
    assert.ok(texts.slice(0, -1).every((text) => !text.includes("kip_services_a")));
    assert.match(
      texts.at(-1) ?? "",
      /^add table ip kip_services_a\ndelete table ip kip_services_a\n/,
    );
  });

  it("makes no chain for few endpoints at two external addresses", () => {
    const services = new Services(place);
    const of = (count: number): string => {
      const endpoints = Array.from({ length: count }, (_, i) => `10.1.0.${i + 1}:80`);
      const externalIps = ["192.0.2.1", "192.0.2.2"];
      return resultOf(
        services.change(new Map([["ns/x", { ...view(endpoints), externalIps }]])),
      ).texts.join("");
    };
    assert.doesNotMatch(of(1), /add chain \S+ \S+ all/);
    assert.match(of(21), /add chain \S+ \S+ all/);
  });

  it("fills the other table, whichever is in force", () => {
    for (const [inForce, other] of [
      ["kip_services_a", "kip_services_b"],
      ["kip_services_b", "kip_services_a"],
    ] as const) {
      const services = many(10_000);
      const texts = rebuilt(services, inForce);
      assert.ok(texts.slice(0, -1).every((text) => !text.includes(inForce)));
      assert.equal(services.table, other);
    }
  });

  it("takes a change of many Services in parts, what is gone first, and fills no new table", () => {
    const services = many(10_000);
    const next = { ...view(["10.1.0.9:80"]), clusterIps: ["10.96.0.5"] };
    const changes = Array.from({ length: 10_000 }, (_, i) => [`ns/s${i}`, undefined] as const);
    const { texts } = resultOf(services.change(new Map([["ns/a", next], ...changes])));
    assert.ok(texts.length > 1);
    assert.ok(Math.max(...texts.map((text) => text.length)) < 400_000);
    assert.ok(texts.slice(0, -1).every((text) => !text.includes("10.1.0.9")));
    assert.ok(texts.every((text) => !text.includes("table ip")));
  });

  it("takes an address from the Service that had it before another one gets it, in however many parts", () => {
    const services = many(10_000);
    const taking = { ...view(["10.1.0.9:80"]), clusterIps: ["10.96.0.5"] };
    const others = Array.from({ length: 9000 }, (_, i) => [`ns/s${i + 1000}`, undefined] as const);
    const more = Array.from({ length: 9000 }, (_, i) => {
      const clusterIps = [`10.99.${i >> 8}.${i & 255}`];
      return [`ns/t${i}`, { ...view(["10.1.0.1:80"]), clusterIps }] as const;
    });
    const { texts } = resultOf(services.change(new Map([["ns/new", taking], ...others, ...more])));
    const at = (verb: string): number =>
      texts.findIndex((text) =>
        text.split("\n").some((line) => line.startsWith(verb) && line.includes(" 10.96.0.5 .")),
      );
    assert.ok(texts.length > 2);
    assert.ok(at("delete element") >= 0);
    assert.ok(at("delete element") <= at("add element"));
  });

  it("fills a new table with all ports of all Services, wherever a part ends", () => {
    const endpoints = (count: number): string[] =>
      Array.from({ length: count }, (_, i) => `10.1.0.${i + 1}:80`);
    const ports = Array.from({ length: 100 }, (_, i) => {
      return {
        name: `p${i}`,
        protocol: "TCP",
        port: 80 + i,
        endpoints: endpoints(100 + i),
      } as const;
    });
    const services = new Services(place);
    const all = ["10.96.0.1", "10.96.0.2"].map(
      (address, i) => [`ns/s${i}`, { clusterIps: [address], ports }] as const,
    );
    resultOf(services.change(new Map(all)));
    const texts = rebuilt(services, "kip_services_a");
    assert.ok(texts.length > 3);
    const chains = new Set<string>();
    const found = new Set<string>();
    for (const text of texts) {
      for (const [, chain = ""] of text.matchAll(/^add chain \S+ \S+ (balance\S+)/gm))
        chains.add(chain);
      for (const [, address = "", port = "", chain = ""] of text.matchAll(
        /([\d.]+) \. tcp \. (\d+) : goto ([^ ,]+)/g,
      )) {
        assert.ok(chains.has(chain), chain);
        found.add(`${address}:${port}`);
      }
    }
    assert.equal(found.size, 2 * ports.length);
  });

  it("releases claims before other Services get them, even over several transactions", () => {
    const of = (address: string, subnet: number): ServiceView => ({
      clusterIps: [`10.96.0.${subnet}`],
      externalIps: [address],
      ports: [
        {
          name: "",
          protocol: "TCP",
          port: 80,
          endpoints: Array.from({ length: 5000 }, (_, i) => `10.${subnet}.${i >> 8}.${i & 255}:80`),
        },
      ],
    });
    const both = (a: string, b: string): ReadonlyMap<string, ServiceView> =>
      new Map([
        ["ns/a", of(a, 2)],
        ["ns/b", of(b, 3)],
      ]);
    const services = new Services(place);
    resultOf(services.change(both("192.0.2.1", "192.0.2.2")));
    const { texts } = resultOf(services.change(both("192.0.2.2", "192.0.2.1")));
    assert.ok(texts.length > 1, "one transaction would show nothing");
    const lines = texts.join("").split("\n");
    for (const address of ["192.0.2.1", "192.0.2.2"]) {
      const at = (verb: string): number =>
        lines.findIndex(
          (line) =>
            line.startsWith(`${verb} element ip kip_services_a services`) && line.includes(address),
        );
      assert.ok(at("delete") >= 0 && at("delete") < at("add"), address);
    }
  });
});

describe("arrange()", () => {
  it("keeps the index of entries in both lists, and fills the gaps with the rest", () => {
    assert.deepEqual(arrange(["a", "b", "c"], ["c", "d", "a"]), ["a", "d", "c"]);
    assert.deepEqual(arrange(["a", "b", "c"], ["c"]), ["c"]);
    assert.deepEqual(arrange([], ["b", "a"]), ["b", "a"]);
  });
});
