import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount } from "@kip/network-view";
import { SlowClock } from "@kip/testing";
import { TestCell } from "../testing/test-cell.ts";
import { NetworkViews } from "./network-views.ts";

/** Pods of a namespace of their own, of which one changes in each turn of the event loop. */
const pods = 40;

class Bench {
  readonly stop = new AbortController();
  readonly clock = new SlowClock();
  readonly views = new NetworkViews({
    node: { name: "kip" },
    clock: this.clock,
    signal: this.stop.signal,
  });
  #changes = 0;

  constructor() {
    this.clock.lookMs = 4;
    for (const name of ["busy", "web", "large"])
      this.views.setNamespace({
        metadata: { name, namespace: "", uid: name, resourceVersion: "1", labels: {} },
      });
    for (let i = 0; i < pods; i++) this.#change();
    for (const namespace of ["web", "large"])
      for (const name of ["a", "b"]) this.setPod(`${namespace}-${name}`, namespace, "192.0.2.1");
    this.setEndpoint("10.1.0.1");
    const spec = { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], ports: [{ port: 80 }] };
    this.views.setService({ metadata: this.#meta("busy", "s"), spec });
  }

  setPod(name: string, namespace: string, address: string, app = "x"): void {
    const labels = { app, change: String(this.#changes) };
    const pod = podWith({ status: { podIP: address, podIPs: [{ ip: address }] } });
    const metadata = { ...pod.metadata, ...this.#meta(namespace, name), labels };
    this.views.setPod({ ...pod, metadata });
  }

  setEndpoint(address: string): void {
    const labels = { "kubernetes.io/service-name": "s" };
    this.views.setSlice({
      metadata: { ...this.#meta("busy", "s-1"), labels },
      addressType: "IPv4",
      ports: [{ port: 8080 }],
      endpoints: [{ addresses: [address] }],
    });
  }

  /** Has the pods of a namespace let in pods of all by so many selectors, one of which chooses any. */
  setPolicy(namespace: string, selectors: number, app = "x", others = "x"): void {
    const from = Array.from({ length: selectors }, (_, i) => ({
      namespaceSelector: {},
      podSelector: { matchLabels: { app: i === 0 ? app : `${others}${i}` } },
    }));
    const spec = { podSelector: {}, policyTypes: ["Ingress"], ingress: [{ from }] };
    const policy = { metadata: this.#meta(namespace, "p"), spec };
    this.views.setPolicy(policy);
  }

  begin(podUid: string, namespace: string): TestCell {
    const cell = new TestCell();
    const sums = Array<number>(bucketCount).fill(0);
    const subscription = this.views.subscribe({ podUid, namespace, sums, knowsTiers: true });
    cell.follow(subscription, this.stop.signal).catch(() => {});
    return cell;
  }

  /** Lets blocks of work pass, and pods change between any two of them, until something is so. */
  async until(isSo: () => boolean, most: number): Promise<void> {
    for (let turn = 0; !isSo(); turn++) {
      assert.ok(turn < most, `It is not so after ${most} turns`);
      this.#change();
      await this.turn();
    }
  }

  async turn(): Promise<void> {
    void this.clock.advance(10); // as long as a block takes; it awaits more than one
    await new Promise((resolve) => setImmediate(resolve));
  }

  #change(): void {
    const number = this.#changes++ % pods;
    this.setPod(`busy-${number}`, "busy", `10.0.0.${number + 1}`);
  }

  #meta(namespace: string, name: string) {
    return { namespace, name, uid: name, resourceVersion: "1" };
  }
}

const endpointOf = (cell: TestCell): string | undefined =>
  cell.services.get("busy/s")?.ports[0]?.endpoints[0];

describe("NetworkViews, while pods change without end", () => {
  it("give cells what has changed, and new ones their first rules, after a bounded number of blocks", async () => {
    const bench = new Bench();
    bench.setPolicy("web", 60);
    const cell = bench.begin("web-a", "web");
    while (!cell.policy) await bench.turn();
    for (let round = 2; round < 6; round++) {
      const address = `10.1.0.${round}`;
      let turns = 0;
      await bench.until(() => ++turns > 20, 25); // groups are behind
      bench.setEndpoint(address);
      await bench.until(() => endpointOf(cell) === `${address}:8080`, 300);
      bench.setPod("web-b", "web", `192.0.2.${round}`);
      await bench.until(() => cell.admits(`192.0.2.${round}`), 300);
    }
    const late = bench.begin("web-b", "web");
    await bench.until(() => late.policy !== undefined && late.admits("192.0.2.5"), 300);
    bench.stop.abort();
  });

  it("give a new cell its rules that comes while groups are filled, if nothing changes after that", async () => {
    const bench = new Bench();
    bench.setPolicy("web", 20);
    for (let turn = 0; turn < 150; turn++) await bench.turn();
    const first = bench.begin("web-a", "web");
    for (let turn = 0; turn < 3; turn++) await bench.turn();
    assert.equal(first.policy, undefined);
    const second = bench.begin("web-b", "web");
    for (let turn = 0; turn < 300; turn++) await bench.turn();
    assert.ok(first.policy && second.policy && second.admits("10.0.0.1"));
    bench.stop.abort();
  });

  it("do so for others while groups of one namespace take too long", async () => {
    const bench = new Bench();
    bench.setPolicy("web", 3);
    bench.setPolicy("large", 500);
    const cell = bench.begin("web-a", "web");
    const slow = bench.begin("large-a", "large");
    while (!cell.policy || !slow.policy) await bench.turn();
    for (let round = 2; round < 6; round++) {
      bench.setPod("web-b", "web", `192.0.2.${round}`);
      await bench.until(() => cell.admits(`192.0.2.${round}`), 300);
    }
    const late = bench.begin("web-b", "web");
    await bench.until(() => late.policy !== undefined && late.admits("192.0.2.5"), 300);
    bench.stop.abort();
  });

  it("give cells of a namespace whose groups take too long what has changed, too", async () => {
    const bench = new Bench();
    bench.setPolicy("large", 500);
    const slow = bench.begin("large-a", "large");
    while (!slow.policy) await bench.turn();
    for (let round = 2; round < 4; round++) {
      bench.setPod("web-b", "web", `192.0.2.${round}`);
      await bench.until(() => slow.admits(`192.0.2.${round}`), 5000);
      assert.ok(!slow.admits(`192.0.2.${round - 1}`) || round === 2);
    }
    const late = bench.begin("large-b", "large");
    await bench.until(() => late.policy !== undefined && late.admits("192.0.2.3"), 5000);
    bench.setPolicy("large", 400, "y");
    bench.setPod("web-b", "web", "192.0.2.4", "y");
    await bench.until(() => slow.admits("192.0.2.4"), 5000);
    assert.ok(!slow.admits("192.0.2.3"));
    bench.stop.abort();
  });

  it("give a new cell of such a namespace its first rules with all addresses that they allow", async () => {
    const bench = new Bench();
    const selectors = 500;
    const allowed = Array.from({ length: 10 }, (_, i) => `192.0.3.${i}`);
    for (const [i, address] of allowed.entries())
      bench.setPod(`web-${i}`, "web", address, `x${50 * i + 1}`);
    bench.setPolicy("large", selectors);
    const cell = bench.begin("large-a", "large");
    await bench.until(() => cell.policy !== undefined, 5000);
    assert.deepEqual(
      allowed.filter((address) => !cell.admits(address)),
      [],
    );
    bench.stop.abort();
  });

  it("give them to pods whose policy has changed while others with the same policies come without end", async () => {
    const bench = new Bench();
    bench.setPolicy("large", 200);
    const cells = Array.from({ length: 20 }, (_, i) => {
      bench.setPod(`large-${i}`, "large", `192.0.4.${i}`);
      return bench.begin(`large-${i}`, "large");
    });
    await bench.until(() => cells.every(({ policy }) => policy), 5000);
    bench.setPod("web-a", "web", "192.0.2.9", "y");
    bench.setPolicy("large", 200, "y");
    let turns = 0;
    const isSo = (): boolean => {
      if (++turns % 40 === 0) {
        const name = `late-${turns}`;
        bench.setPod(name, "large", `192.0.5.${turns % 200}`);
        bench.begin(name, "large");
      }
      return cells.every((cell) => cell.admits("192.0.2.9"));
    };
    await bench.until(isSo, 600);
    bench.stop.abort();
  });

  it("give cells changes of a selector that several such namespaces have in common", async () => {
    const bench = new Bench();
    const cells = ["web", "large"].map((namespace) => {
      bench.setPolicy(namespace, 250, "x", `${namespace}-`);
      return bench.begin(`${namespace}-a`, namespace);
    });
    while (!cells.every(({ policy }) => policy)) await bench.turn();
    for (let round = 2; round < 5; round++) {
      const address = `192.0.2.${round}`;
      bench.setPod("web-b", "web", address);
      await bench.until(() => cells.every((cell) => cell.admits(address)), 5000);
      assert.ok(cells.every((cell) => !cell.admits(`192.0.2.${round - 1}`) || round === 2));
    }
    bench.stop.abort();
  });
});
