// Random histories of pods that change faster than groups look at them: no cell lets in what its policies did not allow at any time.
import assert from "node:assert/strict";
import { it } from "node:test";
import * as fc from "fast-check";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount } from "@kip/network-view";
import { SlowClock } from "@kip/testing";
import { TestCell } from "../testing/test-cell.ts";
import { NetworkViews } from "./network-views.ts";

const runs = Number(process.env["KIP_MODEL_RUNS"] ?? 8);

const names = ["one", "two"] as const;
type Name = (typeof names)[number];
const name = fc.constantFrom(...names);

/** Beside what a history does, pods of others change in each turn, and namespaces name so many other selectors. */
const selectors = 30;
const turns = 5;

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("peer" as const), number: fc.nat(5), app: name }),
  },
  fc.record({ kind: fc.constant("policy" as const), role: name, app: name }),
  fc.record({ kind: fc.constant("pod" as const), role: name }),
  fc.record({ kind: fc.constant("cell" as const) }),
);

class World {
  readonly #stop = new AbortController();
  readonly #clock = new SlowClock();
  readonly #views = new NetworkViews({
    node: { name: "kip" },
    clock: this.#clock,
    signal: this.#stop.signal,
  });
  /** For pods of a role, which pods may come in. */
  readonly #admitted = new Map<Name, Name>();
  readonly #peers = new Map<number, { readonly app: Name; readonly address: string }>();
  readonly #allowedOnce = new Set<string>();
  #role: Name = "one";
  #cell = new TestCell();
  #end = new AbortController();
  #addresses = 0;
  #changes = 0;
  /** How many changes the cells have had, and how many of them while groups were behind. */
  readonly seen = { changes: 0, late: 0 };

  constructor() {
    this.#clock.lookMs = 4;
    for (const namespace of ["web", "large"])
      this.#views.setNamespace({ metadata: { ...meta("", namespace), labels: {} } });
    for (const role of names) this.#setPolicy(role, role);
    for (let i = 0; i < 40; i++) this.#changeOther();
    this.#setPod("large", "own", "10.1.0.1", { role: this.#role });
    this.#begin();
    // Groups are kept that pods of either role need.
    for (const role of names) {
      this.#setPod("large", role, "10.1.0.2", { role });
      this.#follow(role, new TestCell(), this.#stop.signal);
    }
  }

  async do(next: typeof step extends fc.Arbitrary<infer T> ? T : never): Promise<void> {
    if (next.kind === "peer") this.#setPeer(next.number, next.app);
    else if (next.kind === "policy") this.#setPolicy(next.role, next.app);
    else if (next.kind === "cell") this.#begin();
    else {
      this.#role = next.role;
      this.#setPod("large", "own", "10.1.0.1", { role: next.role });
    }
    this.#note();
    for (let turn = 0; turn < turns; turn++) {
      this.#changeOther();
      const { changes } = this.#cell;
      void this.#clock.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
      this.#compare();
      if (this.#cell.changes === changes) continue;
      this.seen.changes++;
      if (this.#views.groups.isLate("large")) this.seen.late++;
    }
  }

  end(): void {
    this.#end.abort();
    this.#stop.abort();
  }

  #begin(): void {
    this.#end.abort();
    this.#end = new AbortController();
    this.#cell = new TestCell();
    this.#follow("own", this.#cell, this.#end.signal);
  }

  #follow(podUid: string, cell: TestCell, signal: AbortSignal): void {
    const sums = Array<number>(bucketCount).fill(0);
    const which = { podUid, namespace: "large", sums, knowsTiers: true };
    const subscription = this.#views.subscribe(which);
    signal.addEventListener("abort", () => subscription[Symbol.dispose]());
    cell.follow(subscription, signal).catch(() => {});
  }

  #note(): void {
    for (const { app, address } of this.#peers.values())
      if (this.#admitted.get(this.#role) === app) this.#allowedOnce.add(address);
  }

  #compare(): void {
    if (!this.#cell.policy) return;
    for (let i = 1; i <= this.#addresses; i++)
      if (this.#cell.admits(addressOf(i))) assert.ok(this.#allowedOnce.has(addressOf(i)));
  }

  /** Each state of a pod has an address of its own. */
  #setPeer(number: number, app: Name): void {
    const address = addressOf(++this.#addresses);
    this.#peers.set(number, { app, address });
    this.#setPod("web", `peer-${number}`, address, { app });
  }

  #setPolicy(role: Name, app: Name): void {
    this.#admitted.set(role, app);
    const from = [app, ...Array.from({ length: selectors }, (_, i) => `${role}-${i}`)].map(
      (each) => ({ namespaceSelector: {}, podSelector: { matchLabels: { app: each } } }),
    );
    const spec = { podSelector: { matchLabels: { role } }, ingress: [{ from }] };
    this.#views.setPolicy({ metadata: meta("large", role), spec });
  }

  #changeOther(): void {
    const number = this.#changes++;
    const labels = { change: String(number) };
    this.#setPod("web", `other-${number % 40}`, `10.2.0.${(number % 40) + 1}`, labels);
  }

  #setPod(
    namespace: string,
    podName: string,
    address: string,
    labels: Readonly<Record<string, string>>,
  ): void {
    const pod = podWith({ status: { podIP: address, podIPs: [{ ip: address }] } });
    this.#views.setPod({
      ...pod,
      metadata: { ...pod.metadata, ...meta(namespace, podName), labels },
    });
  }
}

function meta(namespace: string, objectName: string) {
  return { namespace, name: objectName, uid: objectName, resourceVersion: "1" };
}

function addressOf(number: number): string {
  return `10.0.${number >> 7}.${(number & 127) + 1}`;
}

it("NetworkViews lets in what policies allowed at some time, while groups are behind without end", async () => {
  let [changes, late] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 150, maxLength: 150, size: "max" }),
      async (steps) => {
        const world = new World();
        try {
          for (const next of steps) await world.do(next);
          changes += world.seen.changes;
          late += world.seen.late;
        } finally {
          world.end();
        }
      },
    ),
    { numRuns: runs },
  );
  assert.ok(late > runs, `${late} of ${changes} changes came while groups were behind`);
});
