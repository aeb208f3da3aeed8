import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { silentLogger } from "@kip/base";
import { ManualClock } from "@kip/testing";
import { bucketCount, bucketOf, unknownSums, type ServiceView } from "@kip/network-view";
import { listed } from "./testing/listed-chains.ts";
import type { StaleFlows } from "./connections/stale-flows.ts";
import { blockWork } from "./in-blocks.ts";
import { NetworkRules } from "./network-rules.ts";

const view: ServiceView = {
  clusterIps: ["10.96.0.1"],
  ports: [{ name: "", protocol: "TCP", port: 80, endpoints: ["10.1.0.9:80"] }],
};

const change = { number: 1, services: new Map(), buckets: [], groups: [] };
const options = {
  place: { podAddresses: [], nodeAddresses: [], serviceRanges: [] },
  forget: async () => await Promise.resolve(),
  logger: silentLogger,
} as const;

/** How often other work of the process passes meanwhile. */
async function turnsOf(work: () => Promise<void>): Promise<number> {
  let turns = 0;
  const state = { isOver: false };
  const count = async (): Promise<void> => {
    for (; !state.isOver; turns++) await setImmediate();
  };
  const counted = count();
  await work().finally(() => (state.isOver = true));
  await counted;
  return turns;
}

describe("NetworkRules", () => {
  it("leaves a Service as it is that the change of its bucket says is kept, and removes others", async () => {
    const texts: string[] = [];
    const rules = new NetworkRules({
      place: { podAddresses: [], nodeAddresses: [], serviceRanges: [] },
      runNft: async (text) => {
        texts.push(text);
        return await Promise.resolve("");
      },
      forget: async () => await Promise.resolve(),
      logger: silentLogger,
    });
    await rules.apply({ ...change, services: new Map([["ns/a", view]]) });
    const buckets = [bucketOf("ns/a")];
    texts.length = 0;
    await rules.apply({ ...change, buckets, kept: new Set(["ns/a"]) });
    assert.deepEqual(texts, []);
    await rules.apply({ ...change, buckets });
    assert.match(texts.join(""), /^delete element ip kip_services_b services \{ 10\.96\.0\.1 /m);
  });

  it("puts a policy in force beside that of an earlier process, and removes that one in another transaction", async () => {
    const texts: string[] = [];
    let there = "kip_policy";
    const start = (): NetworkRules =>
      new NetworkRules({
        ...options,
        place: { ...options.place, podAddresses: ["10.1.0.2"], cable: "kip-pod" },
        takesOver: true,
        runNft: async (text) => {
          if (text.startsWith("list")) return await Promise.resolve(listed([there]));
          texts.push(text);
          return "";
        },
      });
    for (const [old, next] of [
      ["kip_policy", "kip_policy_b"],
      ["kip_policy_b", "kip_policy"],
    ] as const) {
      there = old;
      texts.length = 0;
      const rules = start();
      await rules.apply({ ...change, policy: {} });
      const isMade = (text: string): boolean => text.includes(`table ip ${next} {`);
      const isRemoved = (text: string): boolean => text.includes(`delete table ip ${old}\n`);
      assert.deepEqual(
        texts
          .flatMap((text) => [isMade(text) ? "made" : [], isRemoved(text) ? "removed" : []])
          .flat(),
        ["made", "removed"],
      );
      assert.ok(texts.every((text) => !isMade(text) || !isRemoved(text)));
      texts.length = 0;
      await rules.apply({ ...change, policy: { ingress: [] } });
      assert.match(texts[0] ?? "", new RegExp(`^flush chain ip ${next} ingress$`, "m"));
    }
  });

  it("adds clients with session affinity to a new table before packets pass it", async () => {
    const done: string[] = [];
    const rules = new NetworkRules({
      ...options,
      takesOver: true,
      runNft: async (text) => {
        if (text.startsWith("list chains")) return listed(["kip_services_a"]);
        const clients = "kip_services_a clients/all/ns/a/tcp-80\n";
        if (text === `list map ip ${clients}`) return "10.1.0.2 expires 2h : 0x40000001";
        if (text.startsWith("add element ip kip_services_b clients/")) done.push("clients");
        if (text.includes("hook prerouting")) done.push("hooks");
        if (text.includes("delete table ip kip_services_a")) done.push("removal");
        return await Promise.resolve("");
      },
    });
    const services = new Map([["ns/a", { ...view, affinitySeconds: 10_800 }]]);
    const buckets = Array.from({ length: bucketCount }, (_, bucket) => bucket);
    await rules.apply({ ...change, services, buckets });
    assert.deepEqual(done, ["clients", "hooks", "removal"]);
  });

  it("takes away very many UDP endpoints behind very many addresses", async () => {
    const rules = new NetworkRules({ ...options, runNft: async () => await Promise.resolve("") });
    const endpoints = Array.from({ length: 5000 }, (_, i) => `10.1.${i >> 8}.${i & 255}:53`);
    const externalIps = Array.from({ length: 40 }, (_, i) => `192.0.2.${i}`);
    const port = { name: "", protocol: "UDP", port: 53 } as const;
    const of = (list: readonly string[]): ServiceView => ({
      ...view,
      externalIps,
      ports: [{ ...port, endpoints: list }],
    });
    for (const list of [endpoints, []])
      await rules.apply({ ...change, services: new Map([["ns/a", of(list)]]) });
  });

  it("lets other work of the process pass while it takes large Services, and writes their table", async () => {
    const ports = Array.from({ length: 8 }, (_, i) => ({
      ...({ name: `p${i}`, protocol: "TCP", port: 80 + i } as const),
      endpoints: Array.from({ length: 4500 }, (_each, n) => `10.1.${n >> 8}.${n & 255}:80`),
    }));
    const large = { ...view, ports };
    const fails = { nft: false };
    const rules = new NetworkRules({
      ...options,
      runNft: async () => {
        if (fails.nft) throw new Error("no memory");
        return await Promise.resolve("");
      },
    });
    const take = async (services: Map<string, ServiceView>): Promise<void> =>
      await rules.apply({ ...change, services });
    const endpoints = 8 * 4500;
    assert.ok(
      (await turnsOf(async () => await take(new Map([["ns/a", large]])))) >= endpoints / blockWork,
    );
    const last = {
      ...large,
      ports: ports.map((port) => ({ ...port, endpoints: port.endpoints.slice(1) })),
    };
    assert.ok(
      (await turnsOf(async () => await take(new Map([["ns/a", last]])))) >=
        (3 * endpoints) / blockWork,
    );
    fails.nft = true;
    await assert.rejects(turnsOf(async () => await take(new Map([["ns/a", large]]))));
    fails.nft = false;
    assert.ok((await turnsOf(async () => await take(new Map()))) >= endpoints / blockWork);
  });

  it("lets other work of the process pass while it takes very many addresses, also those that it has already", async () => {
    const rules = new NetworkRules({
      ...options,
      place: { ...options.place, podAddresses: ["10.1.0.2"], cable: "kip-pod" },
      runNft: async () => await Promise.resolve(""),
    });
    const add = Array.from({ length: 50_000 }, (_, i) => `10.2.${i >> 8}.${i & 255}`);
    const group = { kind: "group", name: "g", change: "reset", add, remove: [] } as const;
    const policy = { ingress: [{ groups: ["g"] }] };
    const take = async (): Promise<void> =>
      await rules.apply({ ...change, groups: [group], policy });
    assert.ok((await turnsOf(take)) >= add.length / blockWork);
    assert.ok((await turnsOf(take)) >= (2 * add.length) / blockWork);
  });

  it("deletes stale flows once rules are in force, and retries after each failure", async () => {
    const forgotten: (readonly string[])[] = [];
    const fails = { nft: false, forget: false };
    const clock = new ManualClock();
    const rules = new NetworkRules({
      ...options,
      clock,
      runNft: async () => {
        if (fails.nft) throw new Error("no memory");
        return await Promise.resolve("");
      },
      forget: async (flows) => {
        forgotten.push(flows.map(({ address = "", serving }) => [address, ...serving].join(" ")));
        if (fails.forget) throw new Error("no socat");
        await Promise.resolve();
      },
    });
    const of = (host: number): Map<string, ServiceView> => {
      const port = { name: "", protocol: "UDP", port: 53 } as const;
      const ports = [{ ...port, endpoints: [`10.1.0.${host}:53`] }];
      return new Map([["ns/a", { ...view, ports }]]);
    };
    await rules.apply({ ...change, services: of(1) });
    assert.deepEqual(forgotten, []); // no rules have led any
    fails.nft = true;
    await assert.rejects(rules.apply({ ...change, services: of(2) }));
    fails.nft = false;
    await rules.apply(change);
    assert.deepEqual(forgotten, [["10.96.0.1 10.1.0.2:53"]]);
    forgotten.length = 0;
    fails.forget = true;
    await rules.apply({ ...change, services: of(3) });
    await clock.advance(1000);
    await rules.apply(change);
    assert.equal(forgotten.length, 2);
    fails.forget = false;
    await rules.apply({ ...change, services: of(4) });
    assert.equal(forgotten.length, 2);
    await clock.advance(2000);
    assert.deepEqual(forgotten.slice(2), [["10.96.0.1 10.1.0.4:53"]]);
    await clock.advance(120_000);
    assert.equal(forgotten.length, 3);
  });

  it("deletes flows that an earlier process has routed to endpoints that are gone", async () => {
    const forgotten: StaleFlows[] = [];
    const rules = new NetworkRules({
      ...options,
      takesOver: true,
      runNft: async (text) =>
        await Promise.resolve(text.startsWith("list") ? listed(["kip_services_b"]) : ""),
      forget: async (flows) => {
        forgotten.push(...flows);
        await Promise.resolve();
      },
    });
    const ports = [{ name: "", protocol: "UDP", port: 53, endpoints: ["10.1.0.9:53"] }] as const;
    const services = new Map([["ns/a", { ...view, ports }]]);
    await rules.apply({ ...change, services });
    assert.deepEqual(forgotten, []); // rules of before are in force
    await rules.apply({
      ...change,
      buckets: Array.from({ length: bucketCount }, (_, i) => i),
      kept: new Set(["ns/a"]),
    });
    const serving = new Set(["10.1.0.9:53"]);
    assert.deepEqual(forgotten, [
      { address: "10.96.0.1", port: 53, serving, isUntranslatedStale: true },
    ]);
  });

  it("deletes all stale flows of several changes, however many, if no deletion has failed", async () => {
    const forgotten = new Set<string>();
    const rules = new NetworkRules({
      ...options,
      takesOver: true,
      runNft: async (text) =>
        await Promise.resolve(text.startsWith("list") ? listed(["kip_services_b"]) : ""),
      forget: async (flows) => {
        for (const { address = "", port } of flows) forgotten.add(`${address} ${port}`);
        await Promise.resolve();
      },
    });
    const of = (net: number): ServiceView => ({
      clusterIps: [`10.96.0.${net}`],
      externalIps: Array.from({ length: 256 }, (_, i) => `203.0.${net}.${i}`),
      ports: [1, 2, 3, 4].map((port) => ({ name: "", protocol: "UDP", port, endpoints: [] })),
    });
    const all = Array.from({ length: 70 }, (_, net) => [`ns/s${net}`, of(net)] as const);
    await rules.apply({ ...change, services: new Map(all.slice(0, 69)) });
    await rules.apply({
      ...change,
      services: new Map(all.slice(69)),
      buckets: Array.from({ length: bucketCount }, (_, i) => i),
      kept: new Set(all.map(([key]) => key)),
    });
    assert.equal(forgotten.size, 70 * 4 * 257);
  });

  it("writes everything again after a change that could be taken in part only", async () => {
    const texts: string[] = [];
    const rules = new NetworkRules({
      ...options,
      runNft: async (text) => {
        texts.push(text);
        return await Promise.resolve("");
      },
    });
    await rules.apply(change);
    texts.length = 0;
    const ports = view.ports.map((port) => ({ ...port, endpoints: [0 as unknown as string] }));
    const broken = { clusterIps: ["10.96.0.2"], ports };
    const services = new Map([
      ["ns/a", view],
      ["ns/b", broken],
    ]);
    await assert.rejects(rules.apply({ ...change, services }));
    await rules.apply(change);
    assert.match(texts.join(""), /^add element ip \w+ services \{ 10\.96\.0\.1 /m);
  });

  it("reports no valid checksum of a bucket while a change of it is applied or waits", async () => {
    const clock = new ManualClock();
    const hanging = Promise.withResolvers<void>();
    const state = { fails: false };
    const rules = new NetworkRules({
      ...options,
      clock,
      runNft: async () => await Promise.resolve(""),
      forget: async () => {
        if (!state.fails) return await hanging.promise;
        state.fails = false;
        throw new Error("no socat");
      },
    });
    const of = (count: number, first: number): ServiceView => {
      const addresses = Array.from({ length: count }, (_, i) => `10.${first}.${i >> 8}.${i & 255}`);
      const endpoints = addresses.map((address) => `${address}:53`);
      return { ...view, ports: [{ name: "", protocol: "UDP", port: 53, endpoints }] };
    };
    const differs = async (
      services: Map<string, ServiceView>,
    ): Promise<{ taken: Promise<void> }> => {
      const bucket = bucketOf("ns/small");
      const before = rules.sums[bucket];
      const taken = rules.apply({ ...change, services });
      await setImmediate();
      assert.notEqual(rules.sums[bucket], before);
      return { taken };
    };
    const both = (first: number): Map<string, ServiceView> =>
      new Map([
        ["ns/large", of(4000, first)],
        ["ns/small", { ...of(1, first), clusterIps: ["10.96.0.2"] }],
      ]);
    await rules.apply({ ...change, services: both(1) });
    state.fails = true;
    const { taken } = await differs(both(2));
    await taken;
    await clock.advance(1000); // forgetting is tried again, and takes its time
    const later = await differs(new Map([["ns/small", of(1, 3)]]));
    await setImmediate();
    hanging.resolve();
    await later.taken;
    const bucket = bucketOf("ns/small");
    assert.notEqual(rules.sums[bucket], unknownSums()[bucket], "it is known again");
  });

  it("forgets groups of an earlier connection", async () => {
    const texts: string[] = [];
    const rules = new NetworkRules({
      ...options,
      place: { ...options.place, podAddresses: ["10.1.0.2"], cable: "cable" },
      runNft: async (text) => {
        texts.push(text);
        return await Promise.resolve("");
      },
    });
    const group = (name: string) =>
      ({ kind: "group", name, change: "reset", add: ["10.1.0.3"], remove: [] }) as const;
    const policy = (name: string) => ({ ingress: [{ groups: [name] }] });
    await rules.apply({ ...change, groups: [group("old")], policy: policy("old") });
    await rules.apply({ ...change, groups: [group("new")], policy: policy("new") });
    assert.match(texts.join(""), /^delete set ip kip_policy group\/old$/m);
  });

  it("looks only at addresses that change, however many a policy has", async () => {
    let text = "";
    const rules = new NetworkRules({
      ...options,
      place: { ...options.place, podAddresses: ["10.1.0.2"], cable: "cable" },
      runNft: async (each) => {
        text = each;
        return await Promise.resolve("");
      },
    });
    const policy = { ingress: [{ groups: ["many"] }] };
    const many = Array.from({ length: 50_000 }, (_, i) => `10.2.${i >> 8}.${i & 255}`);
    const group = { kind: "group", name: "many" } as const;
    const duration = async (next: Parameters<NetworkRules["apply"]>[0]): Promise<number> => {
      const begunMs = performance.now();
      await rules.apply(next);
      return performance.now() - begunMs;
    };
    const all = { ...group, change: "reset", add: many, remove: [] } as const;
    const firstMs = await duration({ ...change, groups: [all], policy });
    let laterMs = 0;
    for (let i = 0; i < 20; i++) {
      const lines = [
        { ...group, change: "change", add: [`10.3.0.${i}`, "10.2.0.1"], remove: [] },
        { ...group, change: "change", add: [], remove: [`10.2.1.${i}`, "10.4.0.1"] },
      ] as const;
      laterMs += await duration({ ...change, groups: lines });
      const set = "element ip kip_policy group/many";
      assert.equal(text, `delete ${set} { 10.2.1.${i} }\nadd ${set} { 10.3.0.${i} }\n`);
    }
    assert.ok(laterMs < firstMs, `20 changes took ${laterMs} ms, all addresses ${firstMs} ms`);
  });
});
