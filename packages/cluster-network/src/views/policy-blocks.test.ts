import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { podWith } from "@kip/k8s-types/testing";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { bucketCount } from "@kip/network-view";
import { SlowClock } from "@kip/testing";
import { TestCell } from "../testing/test-cell.ts";
import { CellPolicy } from "./cell-policy.ts";
import { policyLine } from "./fitting-policy.ts";
import { NetworkViews } from "./network-views.ts";

const noSums = Array<number>(bucketCount).fill(0);

class Bench {
  readonly stop = new AbortController();
  readonly clock = new SlowClock();
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.stop.signal,
  });
  readonly cells: TestCell[] = [];

  constructor(pods: number) {
    this.setNamespace({});
    for (let i = 0; i < pods; i++) this.setPod(`p${i}`, { app: String(i % 2), own: String(i) });
  }

  /** Has a cell follow its pod. */
  begin(name: string, namespace = "default"): TestCell {
    const cell = new TestCell();
    const which = { podUid: name, namespace, sums: noSums, knowsTiers: true };
    cell.follow(this.views.subscribe(which), this.stop.signal).catch(() => {});
    this.cells.push(cell);
    return cell;
  }

  async beginAll(pods: number): Promise<void> {
    for (let i = 0; i < pods; i++) this.begin(`p${i}`);
    await this.quiet();
  }

  /** Lets work go on until it is done; calls back after each turn of the event loop. */
  async quiet(eachTurn: () => void = () => {}): Promise<void> {
    await this.clock.advance(0);
    for (let idle = 0, before = -1; idle < 20;) {
      await new Promise((resolve) => setImmediate(resolve));
      eachTurn();
      const changes = this.cells.reduce((sum, cell) => sum + cell.changes, 0);
      idle = changes === before ? idle + 1 : 0;
      before = changes;
    }
    await this.clock.advance(1000);
  }

  setNamespace(labels: Record<string, string>, name = "default"): void {
    const metadata = { name, namespace: "", uid: name, resourceVersion: "1" };
    this.views.setNamespace({ metadata: { ...metadata, labels } });
  }

  setPod(name: string, labels: Record<string, string>, namespace = "default"): void {
    const metadata = { namespace, name, uid: name, resourceVersion: "1", labels };
    const podIP = addressOf(name);
    this.views.setPod(podWith({ metadata, status: { podIP, podIPs: [{ ip: podIP }] } }));
  }

  setTier(name: string, port: number, app?: string): void {
    const podSelector = app === undefined ? {} : { matchLabels: { app } };
    const peers = { namespaceSelector: {}, podSelector: { matchLabels: { of: name } } };
    const rule = {
      action: "Deny",
      from: [{ pods: peers }],
      ports: [{ portNumber: { protocol: "TCP", port } }],
    };
    const subject = { pods: { namespaceSelector: {}, podSelector } };
    const spec = { priority: 1, subject, ingress: [rule] };
    this.views.setTierPolicy("AdminNetworkPolicy", { metadata: { name }, spec });
  }

  /** A NetworkPolicy for every pod that lets in pods with a role. */
  setRole(role: string): void {
    const metadata = { namespace: "default", name: "n", uid: "n", resourceVersion: "1" };
    const from = [{ podSelector: { matchLabels: { role } } }];
    const policy: NetworkPolicy = { metadata, spec: { podSelector: {}, ingress: [{ from }] } };
    this.views.setPolicy(policy);
  }

  /** A NetworkPolicy for every pod of another namespace, with selectors that no round before had. */
  setSelectors(round: number, count = 20): void {
    const metadata = { namespace: "busy", name: "n", uid: "busy", resourceVersion: "1" };
    const from = Array.from({ length: count }, (_, i) => {
      const matchExpressions = [{ key: `k${round}-${i}`, operator: "DoesNotExist" as const }];
      return { namespaceSelector: {}, podSelector: { matchExpressions } };
    });
    this.views.setPolicy({ metadata, spec: { podSelector: {}, ingress: [{ from }] } });
  }

  /** Counts how often the name of a group is asked for from now on. */
  countNames(): () => number {
    let count = 0;
    const { groups } = this.views;
    const original = groups.name.bind(groups);
    groups.name = (selector) => {
      count++;
      return original(selector);
    };
    return () => count;
  }
}

function addressOf(name: string): string {
  const number = Number(name.slice(1));
  return `10.0.${number >> 8}.${number & 255}`;
}

describe("NetworkViews, with many pods and policies", () => {
  it("makes the rules of pods that the same policies select once", async () => {
    const bench = new Bench(300);
    for (let i = 0; i < 50; i++) bench.setTier(`t${i}`, 80);
    await bench.beginAll(300);
    const names = bench.countNames();
    bench.setTier("t0", 81);
    await bench.quiet();
    assert.ok(
      bench.cells.every(({ policy }) => policy?.admin?.ingress?.[0]?.ports?.[0]?.port === 81),
    );
    assert.ok(names() <= 4 * 50, `${names()} groups named`);
  });

  it("computes only pods that a changed policy selects", async () => {
    const bench = new Bench(100);
    for (let i = 0; i < 20; i++) bench.setTier(`t${i}`, 80);
    bench.setTier("of-some", 80, "0");
    await bench.beginAll(100);
    const computed = new Set<string>();
    const { policies } = bench.views;
    const original = policies.choiceOf.bind(policies);
    policies.choiceOf = (uid) => {
      computed.add(uid);
      return original(uid);
    };
    bench.setTier("of-some", 81, "0");
    await bench.quiet();
    assert.equal(computed.size, 50);
  });

  it("computes nothing when a policy is written again as it was", async () => {
    const bench = new Bench(10);
    bench.setTier("t", 80);
    bench.setRole("peer");
    await bench.beginAll(10);
    const names = bench.countNames();
    bench.setTier("t", 80);
    bench.setRole("peer");
    await bench.quiet();
    assert.equal(names(), 0);
  });

  it("lets other work pass while it gives many cells other policies", async () => {
    const bench = new Bench(500);
    for (let i = 0; i < 20; i++) bench.setTier(`t${i}`, 80);
    await bench.beginAll(500);
    const changed = (): number =>
      bench.cells.filter(({ policy }) => policy?.admin?.ingress?.[0]?.ports?.[0]?.port === 81)
        .length;
    let [most, before] = [0, 0];
    bench.setTier("t0", 81);
    await bench.quiet(() => {
      // Before the first call there may have been several turns.
      if (before > 0) most = Math.max(most, changed() - before);
      before = changed();
    });
    assert.equal(changed(), 500);
    assert.ok(most <= 100, `${most} cells in one turn`);
  });

  it("lets no cell have new addresses with rules of before", async () => {
    const bench = new Bench(300);
    bench.setRole("peer");
    await bench.beginAll(300);
    bench.setRole("other");
    bench.setPod("p299", { role: "peer" });
    let isMixed = false;
    await bench.quiet(() => {
      for (const cell of bench.cells) cell.ask();
      isMixed ||= bench.cells.some((cell) => cell.admits(addressOf("p299")));
    });
    assert.equal(isMixed, false);
    bench.setRole("peer");
    await bench.quiet();
    assert.ok(bench.cells.every((cell) => cell.admits(addressOf("p299"))));
  });

  it("keeps the rules of before, with their addresses, until the labels of a namespace are known of all its pods", async () => {
    const bench = new Bench(600);
    bench.setNamespace({ team: "x" });
    const metadata = { namespace: "default", name: "n", uid: "n", resourceVersion: "1" };
    const set = (port: number): void => {
      const from = [{ namespaceSelector: { matchLabels: { team: "x" } } }];
      const spec = { podSelector: {}, ingress: [{ from, ports: [{ port }] }] };
      bench.views.setPolicy({ metadata, spec });
    };
    set(443);
    await bench.beginAll(20);
    bench.setNamespace({ team: "y" });
    set(80);
    let isMixed = false;
    await bench.quiet(() => {
      isMixed ||= bench.cells.some((cell) => cell.admits(addressOf("p599")));
    });
    assert.equal(isMixed, false);
  });

  it("gives a cell that begins meanwhile the newest rules first", async () => {
    const bench = new Bench(400);
    bench.setRole("other");
    await bench.beginAll(399);
    bench.setRole("peer");
    bench.setPod("p399", { role: "peer", app: "0" });
    const late: TestCell[] = [];
    const admitted: boolean[] = [];
    await bench.quiet(() => {
      if (late.length < 5 && bench.cells.some((cell) => cell.admits(addressOf("p399"))))
        late.push(bench.begin("p399"));
      for (const cell of late) if (cell.changes > 0) admitted.push(cell.admits(addressOf("p399")));
    });
    assert.equal(late.length, 5);
    assert.ok(admitted.length > 0 && admitted.every(Boolean));
  });

  it("gives pods their rules while another namespace names other selectors all the time", async () => {
    const bench = new Bench(300);
    bench.setNamespace({}, "busy");
    bench.setPod("p300", {}, "busy");
    bench.setSelectors(0);
    bench.setRole("peer");
    bench.begin("p300", "busy");
    await bench.beginAll(3);
    bench.setSelectors(1);
    bench.setRole("other");
    bench.setPod("p299", { role: "other" });
    await bench.clock.advance(1000);
    let most = 0;
    for (let round = 2; round <= 100; round++) {
      bench.setSelectors(round);
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, bench.views.groups.size);
    }
    const [, ...others] = bench.cells;
    assert.ok(others.every((cell) => cell.admits(addressOf("p299"))));
    assert.ok(most <= 100, `${most} groups at the same time`);
    await bench.quiet();
    assert.ok(bench.cells[0]?.admits(addressOf("p1")), "and then the other namespace");
  });

  it("closes a pod while groups of very many selectors of another namespace are filled", async () => {
    const bench = new Bench(600);
    bench.setNamespace({}, "busy");
    bench.setPod("p600", {}, "busy");
    await bench.beginAll(1);
    bench.begin("p600", "busy");
    await bench.quiet();
    bench.setSelectors(0, 300);
    await bench.clock.advance(1000);
    assert.equal(bench.views.groups.isSettled, false);
    bench.setRole("peer");
    await bench.clock.advance(1000);
    const [own, busy] = bench.cells;
    while (own?.policy?.ingress === undefined)
      await new Promise((resolve) => setImmediate(resolve));
    assert.equal(bench.views.groups.isSettled, false, "it did not wait for the other namespace");
    while (busy?.policy?.ingress === undefined)
      await new Promise((resolve) => setImmediate(resolve));
    assert.ok(busy.admits(addressOf("p1")));
    bench.stop.abort();
  });

  it("gives a new cell its rules while groups of another namespace look at many pods that have changed", async () => {
    const bench = new Bench(300);
    for (const [namespace, pod] of [
      ["busy", "p600"],
      ["late", "p601"],
    ] as const) {
      bench.setNamespace({}, namespace);
      bench.setPod(pod, {}, namespace);
    }
    bench.setSelectors(0, 200);
    const metadata = { namespace: "late", name: "n", uid: "late", resourceVersion: "1" };
    const from = [{ podSelector: {} }];
    bench.views.setPolicy({ metadata, spec: { podSelector: {}, ingress: [{ from }] } });
    bench.begin("p600", "busy");
    await bench.quiet();
    const { groups } = bench.views;
    while (!groups.isSettled) await new Promise((resolve) => setImmediate(resolve));
    bench.setNamespace({ team: "other" });
    const late = bench.begin("p601", "late");
    while (late.policy === undefined) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(groups.isSettled, false, "it did not wait for the other namespace");
    assert.ok(late.admits(addressOf("p601")));
    bench.stop.abort();
  });

  it("lets no pod pass that moves from one group to another, and may not pass in either", async () => {
    const bench = new Bench(10);
    for (let i = 0; i < 60; i++) bench.setTier(`t${i}`, 80);
    bench.setPod("p9", { of: "t0" });
    const attempt = { address: addressOf("p9"), port: 80, protocol: "TCP" } as const;
    const cell = bench.begin("p0");
    await bench.quiet();
    assert.equal(cell.passes("ingress", attempt), false);
    bench.clock.lookMs = 30;
    let passed = 0;
    for (const to of ["t59", "t0", "t30"]) {
      bench.setPod("p9", { of: to });
      const before = cell.changes;
      await bench.quiet(() => {
        cell.ask();
        passed += Number(cell.passes("ingress", attempt));
      });
      assert.ok(cell.changes > before);
    }
    assert.equal(passed, 0);
  });

  it("fills groups of policies of administrators for each namespace that waits for them", async () => {
    const bench = new Bench(600);
    for (const [namespace, pod] of [
      ["busy", "p600"],
      ["late", "p601"],
    ] as const) {
      bench.setNamespace({}, namespace);
      bench.setPod(pod, {}, namespace);
    }
    bench.begin("p600", "busy");
    await bench.quiet();
    bench.setTier("t", 80);
    bench.setSelectors(0, 300);
    await bench.clock.advance(1000);
    assert.equal(bench.cells[0]?.policy?.admin, undefined);
    const late = bench.begin("p601", "late");
    while (late.policy?.admin === undefined) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(bench.views.groups.isSettled, false, "it did not wait for the other namespace");
    bench.stop.abort();
  });

  for (const lookMs of [1, 3, 10, 30])
    it(`lets no change of labels go unnoticed where a block of time ends, with looks of ${lookMs} ms`, async () => {
      const bench = new Bench(2);
      bench.setNamespace({ team: "x" }, "other");
      for (const name of ["p3", "p4", "p5", "p6"]) bench.setPod(name, {}, "other");
      const metadata = { namespace: "default", name: "n", uid: "n", resourceVersion: "1" };
      const from = [{ namespaceSelector: { matchLabels: { team: "x" } } }];
      bench.views.setPolicy({ metadata, spec: { podSelector: {}, ingress: [{ from }] } });
      const cell = bench.begin("p0");
      await bench.quiet();
      assert.ok(cell.admits(addressOf("p6")));
      bench.clock.lookMs = lookMs;
      bench.setNamespace({ team: "y" }, "other");
      await bench.quiet();
      await bench.quiet();
      assert.equal(cell.admits(addressOf("p6")), false);
    });

  it("keeps none of the policies that a pod had before", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const source = { version: 1, group: () => undefined };
    const rule = (port: number): CellPolicy =>
      new CellPolicy(policyLine({ ingress: [{ ports: [{ protocol: "TCP", port }] }] }));
    let policy = rule(1);
    const first = new WeakRef(policy);
    for (let port = 2; port < 10; port++) {
      const next = rule(port);
      next.linesReplacing({ policy, version: 1 }, new Set(), source);
      policy = next;
    }
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    assert.equal(first.deref(), undefined);
    assert.ok(policy.line.length > 0);
  });
});
