import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import {
  bucketCount,
  bucketOf,
  type PolicyView,
  type ServiceView,
  type ViewChange,
} from "@kip/network-view";
import {
  forgetFlows,
  NetworkRules,
  openPreparedTables,
  prepareTables,
  type RoutingPlace,
} from "../src/index.ts";
import { cable, podAddresses, TestNetwork } from "./test-network.ts";

const backends = ["10.0.0.11", "10.0.0.12", "10.0.0.13"] as const;
const vip = "10.96.0.10";
const place: RoutingPlace = {
  podAddresses,
  cable,
  nodeAddresses: ["10.0.0.200"],
  serviceRanges: ["10.96.0.0/16", "fd00:96::/112"],
  machinePorts: [6421],
};

/** A Service at `vip`, port 80, with these endpoints. */
function service(
  endpoints: readonly string[],
  more: Partial<ServiceView> & { readonly protocol?: "TCP" | "UDP"; nodePort?: number } = {},
): ServiceView {
  const { protocol = "TCP", nodePort, ...view } = more;
  return {
    clusterIps: [vip, "fd00:96::a"],
    ...view,
    ports: [
      {
        name: "",
        protocol,
        port: 80,
        endpoints,
        ...(nodePort !== undefined && { nodePort }),
        ...((view.isExternalLocal ?? view.isInternalLocal) && { localEndpoints: [] }),
      },
    ],
  };
}

describe("NetworkRules", () => {
  let network: TestNetwork;
  let rules: NetworkRules;

  const newRules = (takesOver = false): NetworkRules =>
    new NetworkRules({
      place,
      takesOver,
      runNft: async (text) => await network.nft(text),
      forget: async (flows) => {
        const inNamespace = ["nsenter", "--target", String(network.cell.pid), "--net"];
        await forgetFlows(flows, { inNamespace });
      },
      logger: silentLogger,
    });
  const apply = async (change: Partial<ViewChange>): Promise<void> =>
    await rules.apply({ number: 0, services: new Map(), buckets: [], groups: [], ...change });
  const applyService = async (view: ServiceView | undefined): Promise<void> =>
    await apply({ services: new Map([["default/web", view]]) });
  const setPolicy = async (policy: PolicyView, ...addresses: readonly string[]): Promise<void> =>
    await apply({
      policy,
      groups: [{ kind: "group", name: "peers", change: "reset", add: addresses, remove: [] }],
    });
  const answers = async (count: number, host = vip): Promise<ReadonlySet<string | undefined>> => {
    const texts: string[] = [];
    for (let i = 0; i < count; i++) texts.push(await network.pod.tcp(host, 80));
    return new Set(texts.map((text) => text.split(" ")[0]));
  };

  const tableInForce = async (): Promise<string> =>
    /kip_services_[ab]/.exec(await network.cell.run("nft", ["list", "tables"]))?.[0] ?? "";

  before(async () => {
    network = await TestNetwork.open();
    for (const host of [...backends, "fd00::11", "fd00::12"]) {
      await network.others.listen(host, 8080);
      await network.others.listen(host, 8080, "udp");
    }
    await network.pod.listen(podAddresses[0], 8080);
    await network.pod.listen(podAddresses[1], 8080);
    rules = newRules();
  });
  after(async () => await network[Symbol.asyncDispose]());

  it("lets nothing to and from the pod before there is a policy", async () => {
    await apply({});
    assert.equal(await network.pod.tcp(backends[0], 8080, 300), "error: timeout");
    assert.equal(await network.others.tcp(podAddresses[0], 8080, 300), "error: timeout");
    await setPolicy({});
    assert.equal(await network.pod.tcp(backends[0], 8080), "10.0.0.11 10.1.0.2");
    assert.equal(await network.others.tcp(podAddresses[0], 8080), "10.1.0.2 10.0.0.11");
  });

  it("puts as many rules in force as the NetworkPolicies of a pod may have, and others in their place", async () => {
    const block = (i: number) => `172.${16 + (i >> 12)}.${(i >> 4) & 255}.${(i & 15) << 4}/28`;
    const many = Array.from({ length: 16_383 }, (_, i) => ({ blocks: [{ cidr: block(i) }] }));
    await setPolicy({ egress: [...many, { blocks: [{ cidr: `${backends[0]}/32` }] }] });
    assert.equal(await network.pod.tcp(backends[0], 8080), "10.0.0.11 10.1.0.2");
    assert.equal(await network.pod.tcp(backends[1], 8080, 300), "error: timeout");
    await setPolicy({});
    assert.equal(await network.pod.tcp(backends[1], 8080), "10.0.0.12 10.1.0.2");
  });

  it("spreads connections to a ClusterIP over its endpoints, and keeps their source", async () => {
    await applyService(service(backends.map((host) => `${host}:8080`)));
    assert.equal((await answers(40)).size, 3);
    assert.match(await network.pod.tcp(vip, 80), / 10\.1\.0\.2$/);
  });

  it("gives the ClusterIP and NodePort of a Service to another one that comes before the first has changed", async () => {
    const of = (host: string, nodePort: number): ServiceView =>
      service([`${host}:8080`], { nodePort });
    const change = async (name: string, view: ServiceView | undefined): Promise<void> =>
      await apply({ services: new Map([[`default/${name}`, view]]) });
    const reached = async (nodePort: number): Promise<string> =>
      (await network.cell.tcp("10.0.0.200", nodePort, 500)).split(" ")[0] ?? "";
    await change("web", of(backends[0], 30_001));
    await change("next", of(backends[1], 30_001));
    assert.deepEqual(
      [await answers(3), await reached(30_001)],
      [new Set([backends[1]]), backends[1]],
    );
    await change("web", { ...of(backends[0], 30_002), clusterIps: ["10.96.0.77"] });
    assert.deepEqual(
      [await answers(3), await reached(30_001)],
      [new Set([backends[1]]), backends[1]],
    );
    assert.equal(await reached(30_002), backends[0]);
    await change("web", of(backends[0], 30_001));
    await change("web", undefined);
    assert.deepEqual(
      [await answers(3), await reached(30_001)],
      [new Set([backends[1]]), backends[1]],
    );
    await change("web", of(backends[0], 30_001));
    rules = newRules(true);
    const whole = { buckets: Array.from({ length: bucketCount }, (_, bucket) => bucket) };
    const both = new Map([
      ["default/web", of(backends[0], 30_001)],
      ["default/next", of(backends[1], 30_001)],
    ]);
    await apply({ ...whole, policy: {}, services: both });
    assert.deepEqual(await answers(3), new Set([backends[1]]));
    await change("next", undefined);
    assert.deepEqual(
      [await answers(3), await reached(30_001)],
      [new Set([backends[0]]), backends[0]],
    );
    await change("web", service(backends.map((host) => `${host}:8080`)));
  });

  it("leads processes of the machine itself to a ClusterIP", async () => {
    assert.match(await network.cell.tcp(vip, 80), /^10\.0\.0\.1[123] 10\.0\.0\.2$/);
  });

  it("leads IPv6 by the same rules", async () => {
    await applyService(service(["10.0.0.11:8080", "[fd00::11]:8080", "[fd00::12]:8080"]));
    assert.deepEqual(await answers(20, "fd00:96::a"), new Set(["fd00::11", "fd00::12"]));
    assert.deepEqual(await answers(5), new Set(["10.0.0.11"]));
  });

  it("leaves the machine's own port alone, whatever external IPs a Service names", async () => {
    const own = "10.0.0.2";
    await network.cell.listen(own, 6421);
    const port = { name: "", protocol: "TCP", port: 6421 } as const;
    for (const endpoints of [["10.0.0.11:8080"], []]) {
      await applyService({
        clusterIps: [vip],
        externalIps: [own],
        ports: [{ ...port, endpoints }],
      });
      assert.equal(await network.others.tcp(own, 6421), `${own} 10.0.0.11`);
      assert.equal(await network.cell.tcp(own, 6421), `${own} ${own}`);
    }
    await applyService({
      clusterIps: [vip],
      loadBalancerIps: [own],
      sourceRanges: ["192.0.2.0/24"],
      ports: [{ ...port, endpoints: ["10.0.0.11:8080"] }],
    });
    assert.equal(await network.others.tcp(own, 6421, 500), `${own} 10.0.0.11`);
    await applyService(service(backends.map((host) => `${host}:8080`)));
  });

  it("leads UDP to its endpoints", async () => {
    await applyService(service(["10.0.0.12:8080"], { protocol: "UDP" }));
    assert.equal(await network.pod.udp(vip, 80), "10.0.0.12 10.1.0.2");
  });

  it("leads a UDP client that keeps its port to another endpoint when its own is gone", async () => {
    const ask = async (): Promise<string> => await network.pod.udp(vip, 80, 40_000, 500);
    await applyService(service([], { protocol: "UDP" }));
    assert.equal(await ask(), "error: ECONNREFUSED");
    for (const host of ["10.0.0.11", "10.0.0.12", "10.0.0.13"]) {
      await applyService(service([`${host}:8080`], { protocol: "UDP" }));
      assert.equal(await ask(), `${host} 10.1.0.2`);
    }
  });

  it("does so at external addresses, NodePorts and by IPv6, and when the Service is made again", async () => {
    const external = "203.0.113.9";
    const more = { protocol: "UDP", nodePort: 30_081, externalIps: [external] } as const;
    const destinations = [
      [external, 80],
      ["10.0.0.200", 30_081],
      ["fd00:96::a", 80],
    ] as const;
    const ask = async (): Promise<readonly string[]> => {
      const answerers: string[] = [];
      for (const [host, port] of destinations)
        answerers.push((await network.pod.udp(host, port, 40_004, 500)).split(" ")[0] ?? "");
      return answerers;
    };
    for (const last of ["1", "2", "1"]) {
      const [v4, v6] = [`10.0.0.1${last}`, `fd00::1${last}`];
      await applyService(service([`${v4}:8080`, `[${v6}]:8080`], more));
      assert.deepEqual(await ask(), [v4, v4, v6]);
      if (last === "2") await applyService(undefined);
    }
  });

  it("leaves a UDP client at an endpoint that terminates and still serves", async () => {
    const set = async (endpoints: readonly string[], servingEndpoints?: readonly string[]) => {
      const view = service(endpoints, { protocol: "UDP" });
      const ports = view.ports.map((port) => ({ ...port, servingEndpoints }));
      await applyService({ ...view, ports });
    };
    const ask = async (from: number): Promise<string> => await network.pod.udp(vip, 80, from, 500);
    await set(["10.0.0.11:8080"]);
    assert.match(await ask(40_001), /^10\.0\.0\.11 /);
    await set(["10.0.0.12:8080"], ["10.0.0.11:8080"]);
    assert.match(await ask(40_001), /^10\.0\.0\.11 /);
    assert.match(await ask(40_002), /^10\.0\.0\.12 /);
    await set(["10.0.0.12:8080"]);
    assert.match(await ask(40_001), /^10\.0\.0\.12 /);
  });

  it("refuses connections at once to a Service without endpoints, and to ports that it does not have", async () => {
    await applyService(service([]));
    assert.equal(await network.pod.tcp(vip, 80), "error: ECONNREFUSED");
    assert.equal(await network.cell.tcp(vip, 80), "error: ECONNREFUSED");
    assert.equal(await network.pod.tcp("fd00:96::a", 80), "error: ECONNREFUSED");
    assert.equal(await network.pod.tcp(vip, 81), "error: ECONNREFUSED");
    assert.equal(await network.pod.udp(vip, 81), "error: ECONNREFUSED");
  });

  it("drops, and does not refuse, what finds no endpoint while a change is put in force", async () => {
    await applyService(service(["10.0.0.11:8080"]));
    const table = await tableInForce();
    const change = (verb: string): string =>
      `${verb} element ip ${table} endpoints { ${vip} . tcp . 80 . 0 ${verb === "add" ? ": 10.0.0.11 . 8080 " : ""}}\n`;
    await network.nft(change("delete"));
    assert.equal(await network.pod.tcp(vip, 80, 300), "error: timeout");
    assert.equal(await network.cell.tcp(vip, 80, 300), "error: timeout");
    const waiting = network.pod.tcp(vip, 80);
    await network.nft(change("add"));
    assert.match(await waiting, /^10\.0\.0\.11 /);
  });

  it("drops what goes to addresses of the Service range that no Service has", async () => {
    assert.equal(await network.pod.tcp("10.96.7.7", 80, 300), "error: timeout");
  });

  it("drops packets to a Service that is local and has endpoints elsewhere only", async () => {
    await applyService(service(["10.0.0.11:8080"], { isInternalLocal: true }));
    assert.equal(await network.pod.tcp(vip, 80, 300), "error: timeout");
  });

  it("has a pod reach itself through its Service", async () => {
    await applyService(
      service(podAddresses.map((a) => (a.includes(":") ? `[${a}]:8080` : `${a}:8080`))),
    );
    assert.match(await network.pod.tcp(vip, 80), /^10\.1\.0\.2 /);
    assert.match(await network.pod.tcp("fd00:96::a", 80), /^fd00:1::2 /);
  });

  it("sends a client to the same endpoint while its affinity lasts", async () => {
    const endpoints = backends.map((host) => `${host}:8080`);
    await applyService(service(endpoints, { affinitySeconds: 10_800, nodePort: 30_080 }));
    const [chosen = ""] = await answers(20);
    assert.deepEqual(await answers(20), new Set([chosen]));
    await applyService(
      service(
        endpoints.filter((e) => !e.startsWith(chosen)),
        { affinitySeconds: 10_800 },
      ),
    );
    const others = await answers(20);
    assert.equal(others.size, 1);
    assert.ok(!others.has(chosen));
  });

  it("keeps a client's endpoint whatever changes but that endpoint, by TCP and UDP, IPv4 and IPv6", async () => {
    const all = [...backends.map((host) => `${host}:8080`), "[fd00::11]:8080", "[fd00::12]:8080"];
    await network.nft(`table ip probe {
      chain marked { type filter hook postrouting priority 300; ct status dnat meta mark != 0 counter; }
    }`);
    for (const protocol of ["TCP", "UDP"] as const) {
      const affinity = { affinitySeconds: 10_800, nodePort: 30_080, protocol };
      const kept = async (view: ServiceView): Promise<readonly [string, string]> => {
        await applyService(view);
        const reached = new Set<string>();
        const ask = async (host: string, to: number): Promise<string> =>
          protocol === "TCP" ? await network.pod.tcp(host, to) : await network.pod.udp(host, to);
        for (let i = 0; i < 8; i++)
          for (const [host, port] of [
            [vip, 80],
            ["fd00:96::a", 80],
            ["10.0.0.200", 30_080],
          ] as const)
            reached.add((await ask(host, port)).split(" ")[0] ?? "");
        const [v6 = "", v4 = ""] = [...reached].sort((a) => (a.includes(":") ? -1 : 1));
        assert.equal(reached.size, 2, [...reached].join(" "));
        return [v4, v6];
      };
      const first = await kept(service(all, affinity));
      assert.deepEqual(await kept(service(all, { ...affinity, affinitySeconds: 60 })), first);
      const others = all.filter((each) => !first.some((host) => each.includes(host)));
      const [other] = others;
      assert.deepEqual(
        await kept(
          service(
            all.filter((each) => each !== other),
            affinity,
          ),
        ),
        first,
      );
      assert.deepEqual(await kept(service(all.toReversed(), affinity)), first);
      const second = await kept(service(others, affinity));
      assert.ok(!first.some((host) => second.includes(host)));
      assert.deepEqual(await kept(service(all, affinity)), second);
    }
    assert.match(await network.nft("list table ip probe\n"), /counter packets 0 /);
    await network.nft("delete table ip probe\n");
  });

  it("gives a client a new endpoint only when its time is over since its last connection", async () => {
    await applyService(undefined);
    const clients = async (): Promise<string> => {
      const table = await tableInForce();
      return await network.nft(`list map ip ${table} clients/all/default/web/tcp-80\n`);
    };
    await applyService(service(["10.0.0.11:8080"], { affinitySeconds: 1000 }));
    assert.match(await network.pod.tcp(vip, 80), /^10\.0\.0\.11 /);
    assert.match(await clients(), /10\.1\.0\.2 (timeout 1000s |timeout 16m40s )?expires/);
    await applyService(service(["10.0.0.11:8080"], { affinitySeconds: 1 }));
    assert.match(await network.pod.tcp(vip, 80), /^10\.0\.0\.11 /);
    while ((await clients()).includes("expires")) await sleep(100);
  });

  it("answers NodePorts at the machine's own address, as a client's detour", async () => {
    await applyService(service(["10.0.0.12:8080"], { nodePort: 30_080 }));
    assert.equal(await network.others.tcp("10.0.0.2", 30_080), "10.0.0.12 10.0.0.2");
    assert.equal(await network.pod.tcp("10.0.0.200", 30_080), "10.0.0.12 10.1.0.2");
    await applyService(service(["10.1.0.2:8080"], { nodePort: 30_080 }));
    assert.equal(await network.others.tcp("10.0.0.2", 30_080), "10.1.0.2 10.0.0.11");
    await applyService(service([], { nodePort: 30_080 }));
    assert.equal(await network.others.tcp("10.0.0.2", 30_080), "error: ECONNREFUSED");
  });

  it("keeps the client's address with externalTrafficPolicy Local, and leads pods everywhere", async () => {
    const endpoints = ["10.1.0.2:8080", "10.0.0.12:8080"];
    const view = service(endpoints, { isExternalLocal: true, nodePort: 30_080 });
    const ports = view.ports.map((port) => ({ ...port, localEndpoints: endpoints.slice(0, 1) }));
    await applyService({ ...view, ports });
    for (let i = 0; i < 5; i++)
      assert.equal(await network.others.tcp("10.0.0.2", 30_080), "10.1.0.2 10.0.0.11");
    const fromPod = new Set<string | undefined>();
    for (let i = 0; i < 20; i++)
      fromPod.add((await network.pod.tcp("10.0.0.200", 30_080)).split(" ")[0]);
    assert.equal(fromPod.size, 2);
    // An endpoint without a node is not local, even if it is the pod.
    await applyService(view);
    assert.equal(await network.others.tcp("10.0.0.2", 30_080, 300), "error: timeout");
    await applyService(service(["10.0.0.12:8080"], { isExternalLocal: true, nodePort: 30_080 }));
    assert.equal(await network.others.tcp("10.0.0.2", 30_080, 300), "error: timeout");
  });

  it("leads addresses of load balancers to endpoints, for clients of their source ranges alone", async () => {
    const view = service(["10.0.0.12:8080"], { loadBalancerIps: ["192.0.2.1"] });
    await applyService({ ...view, sourceRanges: ["10.1.0.0/16"] });
    assert.equal(await network.pod.tcp("192.0.2.1", 80), "10.0.0.12 10.1.0.2");
    await applyService({ ...view, sourceRanges: ["10.2.0.0/16"] });
    assert.equal(await network.pod.tcp("192.0.2.1", 80, 300), "error: timeout");
    await applyService({ ...view, sourceRanges: ["0.0.0.0/0", "10.2.0.0/16"] });
    assert.equal(await network.pod.tcp("192.0.2.1", 80), "10.0.0.12 10.1.0.2");
  });

  it("loses no connection while endpoints are replaced", async () => {
    await applyService(service(["10.0.0.11:8080"]));
    const done = new AbortController();
    const results = new Map<string, number>();
    const load = (async () => {
      while (!done.signal.aborted) {
        const [host = ""] = (await network.pod.tcp(vip, 80)).split(" ");
        results.set(host, (results.get(host) ?? 0) + 1);
      }
    })();
    for (let round = 0; round < 10; round++) {
      const now = backends.filter((_, index) => index !== round % 3);
      await applyService(service(now.map((host) => `${host}:8080`)));
    }
    done.abort();
    await load;
    assert.deepEqual(
      [...results.keys()].filter((host) => host === "error:"),
      [],
    );
    assert.equal(results.size, 3);
  });

  it("leads new connections to an endpoint that has another address, and leaves open ones", async () => {
    await applyService(service(["10.0.0.11:8080"]));
    const { id } = await network.pod.start({ do: "hold", host: vip, port: 80 });
    await applyService(service(["10.0.0.12:8080"]));
    assert.equal(await network.pod.ask({ do: "echo", host: "", port: id }), "again");
    assert.deepEqual(await answers(5), new Set(["10.0.0.12"]));
  });

  it("drops no connection when a new process writes everything again", async () => {
    await applyService(service(["10.0.0.11:8080"]));
    const { id } = await network.pod.start({ do: "hold", host: vip, port: 80 });
    rules = newRules();
    await apply({
      services: new Map([["default/web", service(["10.0.0.12:8080"])]]),
      policy: {},
    });
    const again = { do: "echo", host: "", port: id } as const;
    assert.equal(await network.pod.ask(again), "again");
    assert.deepEqual(await answers(5), new Set(["10.0.0.12"]));
  });

  /** Services of this many clients that no test asks: more than one transaction. */
  const others = (count: number): readonly (readonly [string, ServiceView])[] =>
    Array.from({ length: count }, (_, i) => {
      const clusterIps = [`10.96.${4 + (i >> 8)}.${i & 255}`];
      return [`other/s${i}`, { ...service(["10.0.0.13:8080"]), clusterIps }];
    });
  /** Asks without a pause while something happens, and gives all answers. */
  const answersWhile = async (task: () => Promise<void>): Promise<ReadonlySet<string>> => {
    const found = new Set<string>();
    const done = new AbortController();
    const asking = (async () => {
      while (!done.signal.aborted) {
        const answer = await network.pod.tcp(vip, 80);
        found.add(answer.startsWith("error") ? answer : answer.split(" ")[0]!);
      }
    })();
    await task().finally(() => done.abort());
    await asking;
    return found;
  };

  it("leaves what an earlier process has put in force until the whole table has come, and drops nothing", async () => {
    const web = ["default/web", service(["10.0.0.11:8080"])] as const;
    await apply({ services: new Map([web]) });
    // Twice, so that each of the two tables has been the one in force.
    for (let life = 0; life < 2; life++) {
      const { id } = await network.pod.start({ do: "hold", host: vip, port: 80 });
      const found = await answersWhile(async () => {
        rules = newRules(true);
        assert.ok(rules.sums.every((sum) => sum !== 0));
        await apply({ policy: {}, services: new Map() });
        const all = [...others(4000), web];
        for (let bucket = 0; bucket < bucketCount; bucket++) {
          const some = all.filter(([key]) => bucketOf(key) === bucket);
          await apply({ services: new Map(some), buckets: [bucket] });
        }
      });
      assert.deepEqual(found, new Set(["10.0.0.11"]));
      assert.equal(await network.pod.ask({ do: "echo", host: "", port: id }), "again");
    }
    await applyService(service(["10.0.0.12:8080"]));
    assert.deepEqual(await answers(3), new Set(["10.0.0.12"]));
  });

  it("writes everything again after a transaction that failed", async () => {
    await network.nft("delete table ip kip_services_a\n").catch(() => {});
    await network.nft("delete table ip kip_services_b\n").catch(() => {});
    await assert.rejects(applyService(service(["10.0.0.13:8080"])));
    await apply({});
    assert.deepEqual(await answers(5), new Set(["10.0.0.13"]));
  });

  it("keeps endpoints of clients when everything is written again", async () => {
    const endpoints = [...backends.map((host) => `${host}:8080`), "[fd00::11]:8080"];
    const web = ["default/web", service(endpoints, { affinitySeconds: 10_800 })] as const;
    await apply({ services: new Map([web]) });
    const clientsOf = async (ip: string): Promise<readonly (string | undefined)[]> => {
      const command = `list map ${ip} ${await tableInForce()} clients/all/default/web/tcp-80\n`;
      const listed = (await network.nft(command)).matchAll(
        /(\S+) (?:timeout \S+ )?expires (\d+h).* : (\w+)/g,
      );
      return [...listed].flatMap(([, ...client]) => client);
    };
    const chosen = await answers(1);
    await network.pod.tcp("fd00:96::a", 80);
    const clients = [await clientsOf("ip"), await clientsOf("ip6")];
    assert.deepEqual(
      clients.map((list) => list.slice(0, 2)),
      [
        ["10.1.0.2", "2h"],
        ["fd00:1::2", "2h"],
      ],
    );
    const whole = { buckets: Array.from({ length: bucketCount }, (_, bucket) => bucket) };
    const events = [
      async () => {
        rules = newRules(true);
        await apply({ ...whole, policy: {}, services: new Map([web]) });
      },
      async () => {
        await assert.rejects(applyService({ ...web[1], clusterIps: ["not an address"] }));
        await apply({ services: new Map([web]) });
      },
    ];
    for (const event of events) {
      const table = await tableInForce();
      await event();
      assert.notEqual(await tableInForce(), table);
      assert.deepEqual([await clientsOf("ip"), await clientsOf("ip6")], clients);
      assert.deepEqual(await answers(5), chosen);
    }
    await applyService({ ...web[1], affinitySeconds: undefined });
  });

  it("removes what belongs to a Service that is gone", async () => {
    await applyService(undefined);
    assert.equal(await network.pod.tcp(vip, 80, 300), "error: timeout");
    const list = await network.cell.run("nft", ["list", "ruleset"]);
    assert.doesNotMatch(list, /default\/web|10\.96\.0\.10/);
  });

  it("leads on only what comes from a router's clients", async () => {
    const router = new NetworkRules({
      place: { ...place, podAddresses: [], cable: undefined, clients: ["10.0.0.11"] },
      runNft: async (text) => await network.nft(text),
      forget: async () => {},
      logger: silentLogger,
    });
    // None is local to the node.
    const web = service(["10.1.0.2:8080"], { isExternalLocal: true, nodePort: 30_080 });
    const services = new Map([["default/web", web]]);
    await router.apply({ number: 1, services, buckets: [], groups: [] });
    assert.equal(await network.others.tcp("10.0.0.2", 30_080), "10.1.0.2 10.0.0.2");
    await network.others.ip("route add 10.96.0.0/16 via 10.0.0.2 src 10.0.0.11");
    assert.equal(await network.others.tcp(vip, 80), "10.1.0.2 10.0.0.2");
    await network.others.ip("route replace 10.96.0.0/16 via 10.0.0.2 src 10.0.0.12");
    assert.equal(await network.others.tcp(vip, 80), "error: ECONNREFUSED");
    rules = newRules();
    await apply({ policy: {} });
  });

  it("begins with tables that were prepared, which are closed until there is a policy", async () => {
    const runNft = async (text: string): Promise<string> => await network.nft(text);
    const prepared = await prepareTables({ cable, machinePorts: [6421], runNft });
    const begin = async (policy: PolicyView): Promise<void> => {
      const ownPlace = { ...place, podAddresses: [podAddresses[0]] };
      const forget = async (): Promise<void> => {};
      const options = { place: ownPlace, prepared, runNft, forget, logger: silentLogger };
      rules = new NetworkRules(options);
      const services = new Map([["default/web", service(["10.0.0.12:8080", "10.1.0.2:8080"])]]);
      await apply({ services, policy });
    };
    await begin({});
    assert.deepEqual(await answers(40), new Set(["10.0.0.12", "10.1.0.2"]));
    assert.equal(await network.pod.tcp("10.96.7.7", 80, 300), "error: timeout");
    assert.equal(await network.others.tcp(podAddresses[0], 8080), "10.1.0.2 10.0.0.11");
    await prepareTables({ cable, machinePorts: [6421], runNft });
    // Nothing listens there: without rules the kernel would refuse.
    assert.equal(await network.others.tcp(podAddresses[0], 8099, 300), "error: timeout");
    await begin({ ingress: [] });
    assert.equal(await network.others.tcp(podAddresses[0], 8080, 300), "error: timeout");
    await prepareTables({ cable, machinePorts: [6421], runNft });
    await runNft(openPreparedTables);
    assert.equal(await network.others.tcp(podAddresses[0], 8080), "10.1.0.2 10.0.0.11");
    rules = newRules();
    await apply({ policy: {} });
  });

  describe("with policies", () => {
    it("lets in only peers of a rule, on its ports", async () => {
      await network.pod.listen(podAddresses[0], 8085);
      await setPolicy(
        {
          ingress: [{ groups: ["peers"], ports: [{ protocol: "TCP", port: 8084, endPort: 8086 }] }],
        },
        "10.0.0.11",
      );
      assert.equal(await network.others.tcp(podAddresses[0], 8085), "10.1.0.2 10.0.0.11");
      assert.equal(await network.others.tcp(podAddresses[0], 8080, 300), "error: timeout");
      await apply({
        groups: [
          {
            kind: "group",
            name: "peers",
            change: "change",
            add: ["10.0.0.12"],
            remove: ["10.0.0.11"],
          },
        ],
      });
      assert.equal(await network.others.tcp(podAddresses[0], 8085, 300), "error: timeout");
      assert.equal(await network.pod.tcp(backends[0], 8080), "10.0.0.11 10.1.0.2");
    });

    it("closes a direction that has no rule, and leaves the other one open", async () => {
      await setPolicy({ egress: [] });
      assert.equal(await network.pod.tcp(backends[0], 8080, 300), "error: timeout");
      assert.equal(await network.others.tcp(podAddresses[0], 8080), "10.1.0.2 10.0.0.11");
    });

    it("looks at the endpoint behind a Service, not at the Service's address", async () => {
      await applyService(service(["10.0.0.12:8080"]));
      const ports = [{ protocol: "TCP", port: 8080 }] as const;
      await setPolicy({ egress: [{ groups: ["peers"], ports }] }, "10.0.0.12");
      assert.equal(await network.pod.tcp(vip, 80), "10.0.0.12 10.1.0.2");
      await setPolicy({ egress: [{ groups: ["peers"], ports }] }, "10.0.0.13");
      assert.equal(await network.pod.tcp(vip, 80, 300), "error: timeout");
    });

    it("leaves exceptions out of a block, overlapping ones too", async () => {
      const except = ["10.0.0.12/32", "10.0.0.12/31"];
      await setPolicy({ egress: [{ blocks: [{ cidr: "10.0.0.0/24", except }] }] });
      assert.equal(await network.pod.tcp("10.0.0.11", 8080), "10.0.0.11 10.1.0.2");
      assert.equal(await network.pod.tcp("10.0.0.12", 8080, 300), "error: timeout");
      await setPolicy({
        egress: [
          { blocks: [{ cidr: "10.0.0.0/24", except }] },
          { blocks: [{ cidr: "10.0.0.12/32" }, { cidr: "10.0.0.12/32" }] },
        ],
      });
      assert.equal(await network.pod.tcp("10.0.0.12", 8080), "10.0.0.12 10.1.0.2");
    });

    it("leaves open connections and lets a pod reach itself and its machine when everything is closed", async () => {
      await setPolicy({});
      const { id } = await network.pod.start({ do: "hold", host: backends[0], port: 8080 });
      await applyService(service(["10.1.0.2:8080"]));
      await setPolicy({ ingress: [], egress: [] });
      assert.equal(await network.pod.ask({ do: "echo", host: "", port: id }), "again");
      assert.match(await network.pod.tcp(vip, 80), /^10\.1\.0\.2 /);
      assert.equal(await network.cell.tcp(podAddresses[0], 8080), "10.1.0.2 10.0.0.2");
      await network.cell.listen("10.0.0.2", 9001);
      assert.equal(await network.pod.tcp("10.0.0.2", 9001), "10.0.0.2 10.1.0.2");
      assert.equal(await network.others.tcp(podAddresses[0], 8080, 300), "error: timeout");
    });

    it("takes the first rule of a tier that matches, and goes on behind the tier after a pass", async () => {
      const [first, second, third] = backends;
      // What is closed never answers; what is open may take its time on a busy computer.
      const to = async (host: string): Promise<string> =>
        (await network.pod.tcp(host, 8080, 1500)).replace(/ .*/, "");
      const block = (host: string) => ({ blocks: [{ cidr: `${host}/32` }] });
      const admin = {
        egress: [
          { action: "allow", ...block(first) },
          { action: "pass", ...block(second) },
          { action: "deny" },
        ],
      } as const;
      const baseline = { egress: [{ action: "deny", ...block(second) }] } as const;
      await setPolicy({ admin, egress: [block(second)] });
      assert.deepEqual([await to(first), await to(second)], [first, second]);
      assert.equal(await to(third), "error:");
      await setPolicy({ admin, baseline, egress: [] });
      assert.deepEqual([await to(first), await to(second)], [first, "error:"]);
      await setPolicy({ admin, baseline });
      assert.deepEqual([await to(first), await to(second)], [first, "error:"]);
      await setPolicy({ baseline });
      assert.deepEqual([await to(second), await to(third)], ["error:", third]);
      await setPolicy({});
      assert.equal(await to(second), second);
    });
  });
});
