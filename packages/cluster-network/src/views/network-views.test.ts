import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith, type PodParts } from "@kip/k8s-types/testing";
import type { EndpointSlice, NetworkPolicy, StoredService } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, decodeLine, type ViewLine } from "@kip/network-view";
import { ManualClock } from "@kip/testing";
import { matchingRule } from "../explain/matching-rule.ts";
import { NetworkViews, type ViewSubscription } from "./network-views.ts";

const noSums = Array<number>(bucketCount).fill(0);

function meta(name: string, namespace = "default") {
  return { namespace, name, uid: name, resourceVersion: "1" };
}

function service(name: string, address: string): StoredService {
  return {
    metadata: meta(name),
    spec: { clusterIP: address, clusterIPs: [address], ports: [{ port: 80 }] },
  };
}

function slice(name: string, ...addresses: readonly string[]): EndpointSlice {
  return {
    metadata: { ...meta(`${name}-1`), labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: addresses.map((address) => ({ addresses: [address] })),
  };
}

function pod(name: string, ip: string, parts: PodParts & { namespace?: string } = {}) {
  const { namespace = "default", metadata, spec } = parts;
  return podWith({
    metadata: { ...meta(name, namespace), labels: { app: name }, ...metadata },
    spec,
    status: { podIP: ip, podIPs: [{ ip }], phase: "Running" },
  });
}

function policy(name: string, spec: NonNullable<NetworkPolicy["spec"]>): NetworkPolicy {
  return { metadata: meta(name), spec };
}

class Bench {
  readonly clock = new ManualClock();
  readonly stop = new AbortController();
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.stop.signal,
  });

  constructor() {
    for (const name of ["default", "other"])
      this.views.setNamespace({ metadata: { ...meta(name), labels: { name } } });
  }

  async flush(): Promise<void> {
    await this.clock.advance(100);
  }

  subscribe(podUid: string, sums: readonly number[] = noSums): ViewSubscription {
    return this.views.subscribe({ podUid, namespace: "default", sums });
  }

  async lines(subscription: ViewSubscription): Promise<readonly ViewLine[]> {
    const pieces = await subscription.next(this.stop.signal);
    const text = Buffer.concat(pieces).toString().trimEnd();
    return text.split("\n").map(decodeLine);
  }

  /** All that a cell gets until it lacks nothing. */
  async all(subscription: ViewSubscription): Promise<readonly ViewLine[]> {
    const lines: ViewLine[] = [];
    const stop = new AbortController();
    for (;;) {
      const next = subscription.next(stop.signal).catch(() => undefined);
      const pieces = await Promise.race([
        next,
        new Promise<undefined>((resolve) => setImmediate(resolve, undefined)),
      ]);
      if (!pieces) break;
      lines.push(...Buffer.concat(pieces).toString().trimEnd().split("\n").map(decodeLine));
    }
    stop.abort();
    return lines;
  }
}

const keys = (lines: readonly ViewLine[]): readonly string[] =>
  lines.flatMap((line) => (line.kind === "service" ? [line.key] : []));

describe("NetworkViews", () => {
  it("sends a new cell its policy and common Services first, then the rest of the table", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    bench.views.setService({
      ...service("db", "10.96.0.2"),
      metadata: meta("db", "other"),
    });
    bench.views.setPod(pod("a", "10.0.0.1"));
    const cell = bench.subscribe("a");
    const first = await bench.lines(cell);
    assert.deepEqual(
      first.map(({ kind }) => kind),
      ["policy", "service", "end"],
    );
    assert.deepEqual(keys(first), ["default/web"]);
    assert.ok(keys(await bench.all(cell)).includes("other/db"));
  });

  it("sends cells other endpoints when the Node gets the label of another zone, and all when it has none", async () => {
    const bench = new Bench();
    const zones = ["a", "b"].map((name, i) => ({
      addresses: [`10.0.1.${i}`],
      hints: { forZones: [{ name }] },
    }));
    bench.views.setService(service("web", "10.96.0.1"));
    bench.views.setSlice({ ...slice("web"), endpoints: zones });
    const cell = bench.subscribe("a");
    const countOf = async (zone: string | undefined): Promise<number | undefined> => {
      const labels = zone === undefined ? {} : { "topology.kubernetes.io/zone": zone };
      bench.views.setOwnNode({ metadata: { name: "kip", labels } });
      await bench.flush();
      const line = (await bench.all(cell)).find(({ kind }) => kind === "service");
      return line?.kind === "service" ? line.view?.ports[0]?.endpoints.length : undefined;
    };
    assert.equal(await countOf("b"), 1);
    assert.equal(await countOf("b"), undefined, "it has it already");
    assert.equal(await countOf(undefined), 2);
  });

  it("sends a cell that has the table already nothing of it", async () => {
    const bench = new Bench();
    bench.views.setService({ ...service("db", "10.96.0.2"), metadata: meta("db", "other") });
    bench.views.setPod(pod("a", "10.0.0.1"));
    await bench.flush();
    const cell = bench.subscribe("a", [...bench.views.services.sums]);
    assert.deepEqual(keys(await bench.all(cell)), []);
  });

  it("makes changes within the period one, and sends only what differs", async () => {
    const bench = new Bench();
    for (let i = 1; i < 50; i++) bench.views.setService(service(`s${i}`, `10.96.0.${i}`));
    bench.views.setPod(pod("a", "10.0.0.1"));
    const cell = bench.subscribe("a");
    await bench.all(cell);
    const next = bench.lines(cell);
    bench.views.setSlice(slice("s1", "10.0.0.1"));
    bench.views.setSlice(slice("s1", "10.0.0.1", "10.0.0.2"));
    bench.views.setSlice(slice("s2", "10.0.0.3"));
    await bench.flush();
    assert.deepEqual(keys(await next).toSorted(), ["default/s1", "default/s2"]);
  });

  it("makes the first change after a pause a version at once, and at most one each 100 ms after it", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    await bench.flush();
    await bench.flush();
    const before = bench.views.version;
    const versions: number[] = [];
    for (let ms = 0; ms < 1000; ms += 10) {
      bench.views.setSlice(slice("web", `10.0.0.${ms / 10}`));
      await bench.clock.advance(0);
      versions.push(bench.views.version - before);
      await bench.clock.advance(10);
    }
    assert.deepEqual(versions.slice(0, 12), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]);
    assert.equal(versions.at(-1), 10);
  });

  it("sends a slow cell each Service once, however often it has changed", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    bench.views.setPod(pod("a", "10.0.0.1"));
    const cell = bench.subscribe("a");
    await bench.all(cell);
    for (let i = 1; i < 20; i++) {
      bench.views.setSlice(slice("web", `10.0.0.${i}`));
      await bench.flush();
    }
    const lines = await bench.lines(cell);
    assert.deepEqual(keys(lines), ["default/web"]);
    assert.match(JSON.stringify(lines), /10\.0\.0\.19:8080/);
  });

  it("takes 100 Services of a namespace at a time, the first changed first, and others' changes with them", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    const cell = bench.subscribe("a");
    await bench.all(cell);
    for (let i = 0; i < 1000; i++) {
      const address = `10.97.${i >> 8}.${i & 255}`;
      bench.views.setService({
        ...service(`s${i}`, address),
        metadata: meta(`s${i}`, "flood"),
      });
    }
    bench.views.setSlice(slice("web", "10.0.0.1"));
    for (let version = 1; version <= 10; version++) {
      await bench.clock.advance(version === 1 ? 0 : 100);
      const sent = keys(await bench.lines(cell));
      const ofFlood = sent.filter((key) => key.startsWith("flood/"));
      assert.equal(ofFlood.length, 100);
      assert.ok(ofFlood.includes(`flood/s${100 * version - 1}`));
      assert.deepEqual(
        sent.filter((key) => key.startsWith("default/")),
        version === 1 ? ["default/web"] : [],
      );
    }
  });

  it("takes all Services that are gone at once: another one may have the address already", async () => {
    const bench = new Bench();
    const flood = (i: number): StoredService => {
      return {
        ...service(`s${i}`, `10.97.${i >> 8}.${i & 255}`),
        metadata: meta(`s${i}`, "flood"),
      };
    };
    for (let i = 0; i < 1000; i++) bench.views.setService(flood(i));
    const cell = bench.subscribe("a");
    await bench.all(cell);
    for (let i = 0; i < 1000; i++) bench.views.setService(flood(i), true);
    bench.views.setService(service("web", "10.97.3.200"));
    await bench.flush();
    assert.equal(keys(await bench.lines(cell)).length, 1001);
  });

  it("leaves out a Service that cannot be read, and no other one", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    bench.views.setService(service("bad", "10.96.0.2"));
    bench.views.setService(service("empty", "10.96.0.3"));
    bench.views.setSlice({ ...slice("bad"), endpoints: [null] } as unknown as EndpointSlice);
    bench.views.setSlice({ ...slice("empty"), endpoints: null });
    const sent = keys(await bench.all(bench.subscribe("a")));
    assert.deepEqual([...new Set(sent)].sort(), ["default/empty", "default/web"]);
  });

  it("encodes a change once for all cells", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    const cells = Array.from({ length: 3 }, (_, i) => {
      bench.views.setPod(pod(`p${i}`, `10.0.0.${i}`));
      return bench.subscribe(`p${i}`);
    });
    for (const cell of cells) await bench.all(cell);
    bench.views.setSlice(slice("web", "10.0.0.9"));
    await bench.flush();
    const pieces = await Promise.all(cells.map((cell) => cell.next(bench.stop.signal)));
    assert.equal(new Set(pieces.map(([piece]) => piece)).size, 1);
  });

  it("gives cells that take the table at the same time the same bytes", async () => {
    const bench = new Bench();
    for (let i = 0; i < 500; i++)
      bench.views.setService(service(`s${i}`, `10.96.${i >> 8}.${i & 255}`));
    const cells = Array.from({ length: 20 }, (_, i) => bench.subscribe(`p${i}`));
    const given = new Map<Buffer, number>();
    for (let change = 0; change < 2; change++)
      for (const piece of (await Promise.all(cells.map((c) => c.next(bench.stop.signal)))).flat())
        given.set(piece, (given.get(piece) ?? 0) + piece.length);
    const table = Array.from(
      { length: bucketCount },
      (_, i) => bench.views.services.bucket(i).lines,
    );
    const tableBytes = Buffer.concat(table).length;
    const sent = [...given.values()].reduce((sum, bytes) => sum + bytes, 0);
    const held = [...given.keys()].reduce((sum, { length }) => sum + length, 0);
    assert.ok(sent > cells.length * 1.5 * tableBytes, `${sent} bytes`);
    assert.ok(held < 2.5 * tableBytes, `${held} bytes for a table of ${tableBytes}`);
  });

  it("sends a cell that is far behind the whole table again", async () => {
    const bench = new Bench();
    bench.views.setService(service("web", "10.96.0.1"));
    bench.views.setPod(pod("a", "10.0.0.1"));
    const cell = bench.subscribe("a");
    await bench.all(cell);
    for (let i = 0; i < 9000; i++) bench.views.services.set(`x/s${i}`, undefined, 0);
    for (let i = 0; i < 9000; i++) {
      bench.views.version += 1;
      bench.views.services.set(
        "x/y",
        { clusterIps: [`10.97.${i >> 8}.${i & 255}`], ports: [] },
        bench.views.version,
      );
    }
    const lines = await bench.all(cell);
    assert.equal(lines.filter(({ kind }) => kind === "bucket").length, bucketCount);
  });

  it("lets nothing pass to a pod that is not known yet", async () => {
    const bench = new Bench();
    bench.views.setPolicy(policy("of-others", { podSelector: { matchLabels: { app: "b" } } }));
    const cell = bench.subscribe("a");
    const [closed] = await bench.lines(cell);
    assert.deepEqual(closed, { kind: "policy", policy: { ingress: [], egress: [] } });
    const next = bench.lines(cell);
    bench.views.setPod(pod("a", "10.0.0.1"));
    await bench.flush();
    assert.deepEqual((await next)[0], { kind: "policy", policy: {} });
  });

  it("does not need to know a pod in whose namespace there is no policy", async () => {
    const bench = new Bench();
    const cell = bench.subscribe("a");
    const [open] = await bench.lines(cell);
    assert.deepEqual(open, { kind: "policy", policy: {} });
  });

  it("closes a pod whose policies choose more addresses than a cell takes as one change", async () => {
    const { views, ...bench } = new Bench();
    for (let i = 0; i < 2000; i++)
      views.setPod(pod(`p${i}`, `fd00:1111:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}`));
    const peer = (i: number) => ({
      podSelector: { matchExpressions: [{ key: `k${i}`, operator: "DoesNotExist" as const }] },
    });
    const from = Array.from({ length: 300 }, (_, i) => peer(i));
    views.setPolicy(policy("p", { podSelector: {}, ingress: [{ from }] }));
    const subscription = views.subscribe({ podUid: "p1", namespace: "default", sums: noSums });
    const bytes = Buffer.concat(await subscription.next(bench.stop.signal));
    const [change] = [...new ChangeReader().push(bytes)];
    assert.deepEqual(change?.policy, { ingress: [] });
    assert.deepEqual(change.groups, []);
  });

  it("closes a pod whose policies are longer than a cell takes, and cuts off no cell", async () => {
    const bench = new Bench();
    const port = { port: 80 };
    for (let number = 0; number < 5; number++) {
      const ingress = Array.from({ length: 1000 }, (_, i) => ({ ports: [{ port: i + 1 }, port] }));
      bench.views.setPolicy(
        policy(`long-${number}`, { podSelector: {}, policyTypes: ["Ingress"], ingress }),
      );
    }
    bench.views.setPod(pod("a", "10.0.0.1"));
    const [line] = await bench.lines(bench.subscribe("a"));
    assert.deepEqual(line, { kind: "policy", policy: { ingress: [] } });
  });

  describe("policies", () => {
    const fromB = policy("from-b", {
      podSelector: { matchLabels: { app: "a" } },
      policyTypes: ["Ingress"],
      ingress: [{ from: [{ podSelector: { matchLabels: { app: "b" } } }], ports: [{ port: 80 }] }],
    });

    it("names a group for a selector and sends its changes, not the policy again", async () => {
      const bench = new Bench();
      bench.views.setPolicy(fromB);
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setPod(pod("b", "10.0.0.2"));
      bench.views.setPod(pod("c", "10.0.0.3"));
      const cell = bench.subscribe("a");
      const first = await bench.lines(cell);
      const group = first.find((line) => line.kind === "group");
      assert.ok(group?.kind === "group" && group.change === "reset");
      assert.deepEqual(group.add, ["10.0.0.2"]);
      await bench.all(cell);
      const next = bench.lines(cell);
      bench.views.setPod(pod("b", "10.0.0.4"));
      await bench.flush();
      assert.deepEqual((await next).slice(0, -1), [
        { ...group, change: "change", add: ["10.0.0.4"], remove: ["10.0.0.2"] },
      ]);
    });

    it("takes a pod with its host's network out of groups", async () => {
      const bench = new Bench();
      bench.views.setPolicy(fromB);
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setPod(pod("b", "10.0.0.2", { spec: { hostNetwork: true } }));
      const lines = await bench.lines(bench.subscribe("a"));
      assert.deepEqual(
        lines.flatMap((line) => (line.kind === "group" && line.change !== "gone" ? line.add : [])),
        [],
      );
    });

    it("unites policies of one pod, and leaves a direction open that none restricts", () => {
      const bench = new Bench();
      bench.views.setPolicy(fromB);
      bench.views.setPolicy(
        policy("all", {
          podSelector: {},
          ingress: [{ from: [{ ipBlock: { cidr: "10.0.0.9/32" } }] }],
        }),
      );
      bench.views.setPod(pod("a", "10.0.0.1"));
      const found = bench.views.policies.policyOf("a");
      assert.deepEqual(found?.ingress.restricting, ["from-b", "all"]);
      assert.equal(found.view.ingress?.length, 2);
      assert.equal(found.view.egress, undefined);
    });

    it("resolves named ports by the pod itself inwards, and by each peer outwards", () => {
      const bench = new Bench();
      const named = (number: number) => ({
        spec: { containers: [{ name: "c", ports: [{ name: "web", containerPort: number }] }] },
      });
      bench.views.setPod(pod("a", "10.0.0.1", named(8080)));
      bench.views.setPod(pod("b", "10.0.0.2", named(9090)));
      bench.views.setPod(pod("c", "10.0.0.3", named(9091)));
      const ports = [{ port: "web", protocol: "TCP" }];
      const to = [
        { podSelector: { matchExpressions: [{ key: "app", operator: "In", values: ["b", "c"] }] } },
      ];
      bench.views.setPolicy(
        policy("p", { podSelector: {}, ingress: [{ ports }], egress: [{ to, ports }] }),
      );
      const view = bench.views.policies.policyOf("a")?.view;
      assert.deepEqual(view?.ingress, [{ ports: [{ protocol: "TCP", port: 8080 }] }]);
      const allowed = (address: string, port: number): boolean =>
        matchingRule(
          view?.egress ?? [],
          { address, port, protocol: "TCP" },
          (name) => new Set(bench.views.groups.addresses(name)),
        ) >= 0;
      assert.equal(allowed("10.0.0.2", 9090), true);
      assert.equal(allowed("10.0.0.3", 9091), true);
      assert.equal(allowed("10.0.0.2", 9091), false);
    });

    it("chooses namespaces by their labels, also when those change", async () => {
      const bench = new Bench();
      const from = [{ namespaceSelector: { matchLabels: { team: "x" } } }];
      bench.views.setPolicy(policy("p", { podSelector: {}, ingress: [{ from }] }));
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setPod(pod("b", "10.0.0.2", { namespace: "other" }));
      const cell = bench.subscribe("a");
      await bench.all(cell);
      const next = bench.lines(cell);
      bench.views.setNamespace({ metadata: { ...meta("other"), labels: { team: "x" } } });
      await bench.flush();
      const [line] = await next;
      assert.ok(line?.kind === "group" && line.change === "change");
      assert.deepEqual(line.add, ["10.0.0.2"]);
    });

    it("opens a named port of peers whose namespace becomes known, or gets its labels, after them", async () => {
      const bench = new Bench();
      const to = [{ namespaceSelector: { matchLabels: { team: "x" } } }];
      const egress = [{ to, ports: [{ port: "web" }] }];
      bench.views.setPolicy(policy("p", { podSelector: {}, policyTypes: ["Egress"], egress }));
      bench.views.setPod(pod("a", "10.0.0.1"));
      const containers = [{ name: "c", ports: [{ name: "web", containerPort: 8080 }] }];
      bench.views.setPod(pod("b", "10.0.0.2", { namespace: "late", spec: { containers } }));
      const cell = bench.subscribe("a");
      await bench.all(cell);
      const labelled = async (labels: Record<string, string>): Promise<readonly ViewLine[]> => {
        bench.views.setNamespace({ metadata: { ...meta("late"), labels } });
        await bench.flush();
        return await bench.all(cell);
      };
      const opened = (await labelled({ team: "x" })).find(({ kind }) => kind === "policy");
      assert.ok(opened?.kind === "policy");
      assert.deepEqual(opened.policy.egress?.[0]?.ports, [{ protocol: "TCP", port: 8080 }]);
      const closed = (await labelled({})).find(({ kind }) => kind === "policy");
      assert.deepEqual(closed, { kind: "policy", policy: { egress: [] } });
    });

    it("has selectors choose the name server of kip up like a pod, also after pods were forgotten", async () => {
      const bench = new Bench();
      const ofKip: EndpointSlice = {
        metadata: {
          ...meta("kube-dns", "kube-system"),
          labels: { "endpointslice.kubernetes.io/managed-by": "kip.elotl.co" },
        },
        addressType: "IPv4",
        ports: [{ name: "dns", port: 53, protocol: "UDP" }],
        endpoints: [{ addresses: ["10.0.0.53"] }],
      };
      const others = {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
      };
      bench.views.setSlice({
        ...ofKip,
        metadata: { ...ofKip.metadata, labels: others },
        endpoints: [{ addresses: ["10.0.0.99"] }],
      });
      bench.views.setSlice(ofKip);
      bench.views.setSlice({ ...ofKip, metadata: { ...ofKip.metadata, name: "another" } });
      bench.views.forgetPods();
      bench.views.setNamespace({
        metadata: { ...meta("kube-system"), labels: { name: "system" } },
      });
      const podSelector = { matchLabels: { "k8s-app": "kube-dns" } };
      const to = [{ namespaceSelector: { matchLabels: { name: "system" } }, podSelector }];
      const ports = [{ port: "dns", protocol: "UDP" }];
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setPolicy(policy("names", { podSelector: {}, egress: [{ to, ports }] }));
      const cell = bench.subscribe("a");
      const groups = (lines: readonly ViewLine[]) =>
        lines.flatMap((line) => (line.kind === "group" && line.change !== "gone" ? [line] : []));
      assert.deepEqual(
        groups(await bench.all(cell)).map(({ add }) => add),
        [["10.0.0.53"]],
      );
      const next = bench.lines(cell);
      bench.views.setSlice({ ...ofKip, endpoints: [{ addresses: ["10.0.0.54"] }] });
      await bench.flush();
      const [{ add, remove } = assert.fail()] = groups(await next);
      assert.deepEqual([add, remove], [["10.0.0.54"], ["10.0.0.53"]]);
    });

    it("forgets namespaces with the pods: those that are deleted meanwhile are not known again", () => {
      const { views } = new Bench();
      views.forgetPods();
      assert.deepEqual([...views.groups.namespaces()], []);
    });

    it("sends a group whole that no policy named while its addresses changed", async () => {
      const bench = new Bench();
      const peers = { podSelector: { matchLabels: { role: "peer" } } };
      const allowing = policy("p", { podSelector: {}, ingress: [{ from: [peers] }] });
      bench.views.setPod(pod("a", "10.1.0.1"));
      const peer = pod("b", "10.1.0.2", { metadata: { labels: { role: "peer" } } });
      bench.views.setPod(peer);
      bench.views.setPolicy(allowing);
      const { views } = bench;
      const subscription = views.subscribe({ podUid: "a", namespace: "default", sums: noSums });
      await bench.lines(subscription);
      // The cell takes nothing while the policy is removed and created again.
      views.setPolicy(allowing, true);
      await bench.flush();
      views.setPod(peer, true);
      await bench.flush();
      views.setPolicy(allowing);
      await bench.flush();
      const groups = (await bench.lines(subscription)).filter(({ kind }) => kind === "group");
      assert.deepEqual(
        groups.map((line) => "change" in line && line.change !== "gone" && [line.change, line.add]),
        [["reset", []]],
      );
    });

    it("forgets groups that no cell uses", async () => {
      const bench = new Bench();
      bench.views.setPolicy(fromB);
      bench.views.setPod(pod("a", "10.0.0.1"));
      const cell = bench.subscribe("a");
      const [line] = await bench.lines(cell);
      assert.ok(line?.kind === "group");
      assert.ok(bench.views.group(line.name));
      cell[Symbol.dispose]();
      assert.equal(bench.views.group(line.name), undefined);
    });
  });

  describe("policies of administrators", () => {
    const deny = {
      metadata: { name: "deny" },
      spec: {
        priority: 1,
        subject: { namespaces: { matchLabels: { name: "default" } } },
        ingress: [{ action: "Deny", from: [{ namespaces: { matchLabels: { name: "other" } } }] }],
      },
    };
    const policyOf = async (bench: Bench, cell: ViewSubscription) =>
      (await bench.lines(cell)).flatMap((line) => (line.kind === "policy" ? [line.policy] : []));
    const subscribe = (bench: Bench, knowsTiers: boolean): ViewSubscription =>
      bench.views.subscribe({ podUid: "a", namespace: "default", sums: noSums, knowsTiers });

    it("send rules with actions, and again what changes when the API is removed", async () => {
      const bench = new Bench();
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setTierPolicy("AdminNetworkPolicy", deny);
      const cell = subscribe(bench, true);
      const [first] = await policyOf(bench, cell);
      assert.equal(first?.admin?.ingress?.[0]?.action, "deny");
      await bench.all(cell);
      const next = policyOf(bench, cell);
      bench.views.setTierPolicy("AdminNetworkPolicy", deny, true);
      await bench.flush();
      assert.deepEqual(await next, [{}]);
    });

    it("close their directions on a cell whose agent does not know actions", async () => {
      const bench = new Bench();
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setTierPolicy("AdminNetworkPolicy", deny);
      assert.deepEqual(await policyOf(bench, subscribe(bench, false)), [{ ingress: [] }]);
    });

    it("close a pod until the labels of its namespace are known, which may choose it", async () => {
      const bench = new Bench();
      bench.views.setNamespace({ metadata: meta("default") }, true);
      bench.views.setPod(pod("a", "10.0.0.1"));
      bench.views.setTierPolicy("AdminNetworkPolicy", deny);
      const cell = subscribe(bench, true);
      assert.deepEqual(await policyOf(bench, cell), [{ ingress: [], egress: [] }]);
      const next = policyOf(bench, cell);
      bench.views.setNamespace({ metadata: { ...meta("default"), labels: { name: "default" } } });
      await bench.flush();
      assert.equal((await next)[0]?.admin?.ingress?.[0]?.action, "deny");
    });

    it("are not computed again when a pod with ports comes, unless it brings a number for a name of rules outwards", async () => {
      const bench = new Bench();
      const { views } = bench;
      views.setPod(pod("a", "10.1.0.1"));
      const setPolicy = (ports: readonly unknown[]) =>
        views.setTierPolicy("AdminNetworkPolicy", {
          metadata: { name: "p" },
          spec: {
            priority: 1,
            subject: { namespaces: {} },
            egress: [{ action: "Deny", to: [{ namespaces: {} }], ports }],
          },
        });
      setPolicy([{ portNumber: { protocol: "TCP", port: 80 } }]);
      const cell = subscribe(bench, true);
      let count = 0;
      const original = views.policies.choiceOf.bind(views.policies);
      const counted = (uid: string) => {
        count++;
        return original(uid);
      };
      views.policies.choiceOf = counted;
      const podWithPort = async (name: string, ip: string, number: number): Promise<void> => {
        const ports = [{ name: "http", containerPort: number }];
        views.setPod(pod(name, ip, { spec: { containers: [{ name: "c", image: "i", ports }] } }));
        await bench.flush();
      };
      await podWithPort("b", "10.1.0.2", 8080);
      assert.equal(count, 0);
      setPolicy([{ namedPort: "http" }]);
      await bench.flush();
      await bench.all(cell);
      count = 0;
      await podWithPort("c", "10.1.0.3", 8080);
      assert.equal(count, 0);
      await podWithPort("d", "10.1.0.4", 9090);
      assert.ok(count > 0);
      const policies = (await bench.all(cell)).flatMap((line) =>
        line.kind === "policy" ? [line.policy] : [],
      );
      assert.deepEqual(
        policies.flatMap(({ admin }) => admin?.egress?.map(({ ports }) => ports?.[0]?.port)),
        [8080, 9090],
      );
    });

    it("have the addresses of nodes as peers, and follow them", async () => {
      const bench = new Bench();
      bench.views.setPod(pod("a", "10.0.0.1"));
      const egress = [{ action: "Deny", to: [{ nodes: { matchLabels: { role: "db" } } }] }];
      const spec = { priority: 1, subject: { namespaces: {} }, egress };
      bench.views.setTierPolicy("AdminNetworkPolicy", { metadata: { name: "nodes" }, spec });
      const cell = subscribe(bench, true);
      await bench.all(cell);
      const next = bench.lines(cell);
      bench.views.setNode({
        metadata: { name: "n", labels: { role: "db" } },
        status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] },
      });
      await bench.flush();
      const [line] = await next;
      assert.ok(line?.kind === "group" && line.change === "change");
      assert.deepEqual(line.add, ["192.0.2.1"]);
    });

    it("have the addresses of pods with the network of their host as those of their nodes", async () => {
      const bench = new Bench();
      const { views } = bench;
      views.setPod(pod("a", "10.0.0.1"));
      const egress = [{ action: "Deny", to: [{ nodes: { matchLabels: { role: "db" } } }] }];
      const spec = { priority: 1, subject: { namespaces: {} }, egress };
      views.setTierPolicy("AdminNetworkPolicy", { metadata: { name: "nodes" }, spec });
      const setNode = (role: string): void =>
        views.setNode({
          metadata: { name: "n", labels: { role } },
          status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] },
        });
      const setPod = (name: string, ip: string, phase = "Running"): void =>
        views.setPod({
          ...pod(name, ip, { spec: { hostNetwork: true, nodeName: "n" } }),
          status: { podIP: ip, podIPs: [{ ip }], phase },
        });
      setPod("b", "10.2.0.1");
      setPod("c", "192.0.2.1"); // the address of the node itself
      setNode("db");
      const cell = subscribe(bench, true);
      await bench.all(cell);
      const chosen = views.groups.name({ nodes: { matchLabels: { role: "db" } }, podSelector: {} });
      const addresses = (): readonly string[] => [...views.groups.addresses(chosen)].sort();
      assert.deepEqual(addresses(), ["10.2.0.1", "192.0.2.1"]);
      setPod("d", "10.2.0.2");
      setPod("b", "10.2.0.1", "Succeeded");
      assert.deepEqual(addresses(), ["10.2.0.2", "192.0.2.1"]);
      setNode("web");
      assert.deepEqual(addresses(), []);
      setNode("db");
      views.forgetPods();
      assert.deepEqual(addresses(), ["192.0.2.1"]);
      views.forgetNodes();
      assert.deepEqual(addresses(), []);
    });
  });
});
