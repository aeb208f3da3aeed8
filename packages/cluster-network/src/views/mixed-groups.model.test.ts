// Random histories of pods that change faster than groups look at them: each cell lets pass what its policies allowed lately, and nothing else,
// whatever is changed, deleted and made again meanwhile. KIP_MODEL_RUNS=500 makes more of them.
import assert from "node:assert/strict";
import { it } from "node:test";
import * as fc from "fast-check";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount } from "@kip/network-view";
import { SlowClock } from "@kip/testing";
import { TestCell } from "../testing/test-cell.ts";
import { NetworkViews } from "./network-views.ts";

const runs = Number(process.env["KIP_MODEL_RUNS"] ?? 8);
const seed = process.env["KIP_MODEL_SEED"];

const names = ["one", "two"] as const;
type Name = (typeof names)[number];
const name = fc.constantFrom(...names);
const ports = [8080, 9090] as const;
/** Few: one that a pod had is soon another one's. */
const addresses = Array.from({ length: 6 }, (_, i) => `10.0.0.${i + 1}`);
/** Of a pod that never changes, and that all policies let in. */
const steady = "10.3.0.1";
const attempts = [...addresses, steady].flatMap((address) => [
  { direction: "ingress" as const, attempt: { address, port: 80, protocol: "TCP" as const } },
  ...ports.map((port) => ({
    direction: "egress" as const,
    attempt: { address, port, protocol: "TCP" as const },
  })),
]);
type Tried = (typeof attempts)[number];

/** Beside what a history does, pods of others change in each turn, and policies name so many other selectors. */
const selectors = 15;
const others = 20;
const turns = 5;
/** After so many turns, what a cell has follows from what was so meanwhile. */
const maxBehind = 250;

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("peer" as const),
      number: fc.nat(3),
      app: name,
      address: fc.constantFrom(...addresses),
      port: fc.constantFrom(...ports),
    }),
  },
  fc.record({ kind: fc.constant("peer is gone" as const), number: fc.nat(3) }),
  fc.record({ kind: fc.constant("labels" as const), team: fc.constantFrom("in", "out", "gone") }),
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("policy" as const), role: name, app: name }),
  },
  fc.record({ kind: fc.constant("policy is gone" as const), role: name }),
  fc.record({
    kind: fc.constant("tier" as const),
    tier: fc.constantFrom("Admin" as const, "Baseline" as const),
    action: fc.constantFrom("Accept", "Deny", "Pass", undefined, undefined, undefined),
    app: name,
  }),
  fc.record({ kind: fc.constant("pod" as const), role: name }),
  fc.record({ kind: fc.constant("cell" as const) }),
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("wait" as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const kind = fc.record({
  isAlone: fc.boolean(),
  isShared: fc.boolean(),
  hasTiers: fc.boolean(),
  changesOfTurn: fc.constantFrom(1, 6),
});
type Kind = typeof kind extends fc.Arbitrary<infer T> ? T : never;

class World {
  readonly #stop = new AbortController();
  readonly #clock = new SlowClock();
  readonly #views = new NetworkViews({
    node: { name: "kip" },
    clock: this.#clock,
    signal: this.#stop.signal,
  });
  /** For pods of a role, which pods may come in, and may be reached. */
  readonly #admitted = new Map<Name, Name>();
  readonly #tiers = new Map<
    "Admin" | "Baseline",
    { readonly action: string; readonly app: Name }
  >();
  readonly #peers = new Map<
    number,
    { readonly app: Name; readonly address: string; readonly port: number }
  >();
  #team = "in";
  #role: Name = "one";
  #cell = new TestCell();
  #end = new AbortController();
  #turn = 0;
  #changes = 0;
  /** When policies allowed something last, and did not. */
  readonly #last = new Map<Tried, { allowed: number; denied: number }>();
  /** When there was a policy of an administrator last. */
  #tiersAt = 0;
  /** How many changes the cell has had, and how many of them while groups were behind; after how many turns it had what it should. */
  readonly seen = { changes: 0, late: 0, behind: 0 };

  readonly #changesOfTurn: number;

  /**
   * @param isAlone whether no other pods have the policies: groups are made and forgotten with those of one
   * @param isShared whether another namespace has policies with selectors that these have, too
   * @param changesOfTurn how many pods of others change in a turn: groups are behind by many if these are more
   */
  constructor({ isAlone, isShared, changesOfTurn }: Kind) {
    this.#changesOfTurn = changesOfTurn;
    this.#clock.lookMs = 4;
    this.#setNamespace("web", { team: "in" });
    this.#setNamespace("large", {});
    this.#setNamespace("steady", { team: "in" });
    this.#setPod("steady", "steady", steady, { one: "steady", two: "steady" }, ports[0]);
    for (const role of names) this.#setPolicy(role, role);
    for (let i = 0; i < others; i++) this.#changeOther();
    this.#setPod("large", "own", "10.1.0.1", { role: this.#role });
    this.#begin();
    if (isShared) this.#share();
    for (const role of isAlone ? [] : names) {
      this.#setPod("large", role, "10.1.0.2", { role });
      this.#follow("large", role, this.#stop.signal);
    }
  }

  async do(next: Step): Promise<void> {
    this.#make(next);
    for (let turn = 0; turn < turns; turn++) {
      for (let i = 0; i < this.#changesOfTurn; i++) this.#changeOther();
      await this.#pass();
    }
  }

  /** Has nothing change any longer. */
  async settle(): Promise<void> {
    for (let turn = 0; turn <= maxBehind; turn++) await this.#pass();
    for (const tried of attempts) assert.equal(this.#passes(tried), this.#isAllowed(tried));
  }

  end(): void {
    this.#end.abort();
    this.#stop.abort();
  }

  #make(next: Step): void {
    if (next.kind === "peer") this.#setPeer(next);
    else if (next.kind === "peer is gone") this.#endPeer(next.number);
    else if (next.kind === "labels") this.#setTeam(next.team);
    else if (next.kind === "policy") this.#setPolicy(next.role, next.app);
    else if (next.kind === "policy is gone") this.#endPolicy(next.role);
    else if (next.kind === "tier") this.#setTier(next);
    else if (next.kind === "cell") this.#begin();
    else if (next.kind === "pod") {
      this.#role = next.role;
      this.#setPod("large", "own", "10.1.0.1", { role: next.role });
    }
  }

  async #pass(): Promise<void> {
    this.#turn++;
    const { changes } = this.#cell;
    void this.#clock.advance(10);
    await new Promise((resolve) => setImmediate(resolve));
    this.#compare();
    if (this.#cell.changes === changes) return;
    this.seen.changes++;
    if (this.#views.groups.hasOutdatedGroup("large")) this.seen.late++;
  }

  #begin(): void {
    this.#end.abort();
    this.#end = new AbortController();
    this.#cell = new TestCell();
    this.#follow("large", "own", this.#end.signal, this.#cell);
  }

  #follow(namespace: string, podUid: string, signal: AbortSignal, cell = new TestCell()): void {
    const sums = Array<number>(bucketCount).fill(0);
    const which = { podUid, namespace, sums, knowsTiers: true };
    const subscription = this.#views.subscribe(which);
    signal.addEventListener("abort", () => subscription[Symbol.dispose]());
    cell.follow(subscription, signal).catch(() => {});
  }

  #compare(): void {
    // Policies of administrators may deny: cells that have some wait.
    if (this.#tiers.size > 0) this.#tiersAt = this.#turn;
    for (const tried of attempts) {
      const last = this.#last.get(tried) ?? { allowed: -Infinity, denied: 0 };
      this.#last.set(tried, last);
      last[this.#isAllowed(tried) ? "allowed" : "denied"] = this.#turn;
      const passes = this.#passes(tried);
      if (passes === undefined) continue;
      const what = `${tried.direction} ${tried.attempt.address}:${tried.attempt.port}`;
      assert.ok(!passes || last.allowed > -Infinity, `${what} passes`);
      const since = Math.max(this.#tiersAt, last[passes ? "allowed" : "denied"]);
      const behind = this.#turn - since;
      assert.ok(behind < maxBehind, `${what} ${passes ? "passes" : "does not pass"}: ${behind}`);
      this.seen.behind = Math.max(this.seen.behind, behind);
    }
  }

  #passes({ direction, attempt }: Tried): boolean | undefined {
    return this.#cell.passes(direction, attempt);
  }

  #isAllowed({ direction, attempt: { address, port } }: Tried): boolean {
    const known = [...this.#peers.values()].find((each) => each.address === address);
    const peer = this.#team === "in" ? known : undefined;
    const isOf = (app: Name | undefined): boolean => peer !== undefined && peer.app === app;
    const admin = this.#tiers.get("Admin");
    if (admin && admin.action !== "Pass" && isOf(admin.app)) return admin.action === "Accept";
    const admitted = this.#admitted.get(this.#role);
    const isSteady = address === steady;
    const isPort = direction === "ingress" || port === (isSteady ? ports[0] : peer?.port);
    if (admitted) return (isSteady || isOf(admitted)) && isPort;
    const baseline = this.#tiers.get("Baseline");
    return baseline?.action !== "Deny" || !isOf(baseline.app);
  }

  #setPeer({ number, app, address, port }: Step & { readonly kind: "peer" }): void {
    for (const [other, peer] of this.#peers)
      if (other !== number && peer.address === address) this.#endPeer(other);
    this.#peers.set(number, { app, address, port });
    this.#setPod("web", `peer-${number}`, address, { app }, port);
  }

  #endPeer(number: number): void {
    const peer = this.#peers.get(number);
    if (!peer) return;
    this.#peers.delete(number);
    this.#setPod("web", `peer-${number}`, peer.address, {}, undefined, true);
  }

  #setTeam(team: string): void {
    this.#team = team;
    this.#setNamespace("web", { team }, team === "gone");
  }

  #setPolicy(role: Name, app: Name): void {
    this.#admitted.set(role, app);
    const peers = [peer({ [role]: "steady" }), peer({ app }), ...peersOf(role)];
    const spec = { ...specOf(peers), podSelector: { matchLabels: { role } } };
    this.#views.setPolicy({ metadata: meta("large", role), spec });
  }

  #share(): void {
    const peers = [...names.map((app) => peer({ app })), ...peersOf("larger")];
    const spec = { ...specOf(peers), podSelector: {} };
    this.#views.setPolicy({ metadata: meta("larger", "larger"), spec });
    this.#setNamespace("larger", {});
    this.#setPod("larger", "larger", "10.1.0.3", {});
    this.#follow("larger", "larger", this.#stop.signal);
  }

  #endPolicy(role: Name): void {
    this.#admitted.delete(role);
    const spec = { podSelector: {} };
    this.#views.setPolicy({ metadata: meta("large", role), spec }, true);
  }

  #setTier({ tier, action, app }: Step & { readonly kind: "tier" }): void {
    if (action) this.#tiers.set(tier, { action, app });
    else this.#tiers.delete(tier);
    const rule = { action: tier === "Baseline" && action === "Pass" ? "Accept" : action };
    const subject = { namespaces: { matchLabels: { of: "large" } } };
    const spec = {
      tier,
      priority: 1,
      subject,
      ingress: [{ ...rule, from: [{ pods: peer({ app }) }] }],
      egress: [{ ...rule, to: [{ pods: peer({ app }) }] }],
    };
    const object = { metadata: { name: tier.toLowerCase() }, spec };
    this.#views.setTierPolicy("ClusterNetworkPolicy", object, action === undefined);
  }

  #changeOther(): void {
    const number = this.#changes++;
    const labels = { change: String(number) };
    this.#setPod("web", `other-${number % others}`, `10.2.0.${(number % others) + 1}`, labels);
  }

  #setNamespace(namespace: string, labels: Readonly<Record<string, string>>, isGone = false): void {
    const metadata = { ...meta("", namespace), labels: { ...labels, of: namespace } };
    this.#views.setNamespace({ metadata }, isGone);
  }

  #setPod(
    namespace: string,
    podName: string,
    address: string,
    labels: Readonly<Record<string, string>>,
    port?: number,
    isGone = false,
  ): void {
    const pod = podWith({ status: { podIP: address, podIPs: [{ ip: address }] } });
    const named = port === undefined ? [] : [{ name: "http", containerPort: port }];
    const spec = { ...pod.spec, containers: [{ name: "c", ports: named }] };
    const metadata = { ...pod.metadata, ...meta(namespace, podName), labels };
    this.#views.setPod({ ...pod, spec, metadata }, isGone);
  }
}

function peer(matchLabels: Readonly<Record<string, string>>) {
  return {
    namespaceSelector: { matchLabels: { team: "in" } },
    podSelector: { matchLabels },
  };
}

/** Others, that choose no pod. */
function peersOf(owner: string) {
  return Array.from({ length: selectors }, (_, i) => peer({ app: `${owner}-${i}` }));
}

function specOf(peers: readonly ReturnType<typeof peer>[]) {
  return {
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: peers }],
    egress: [{ to: peers, ports: [{ port: "http" }] }],
  };
}

function meta(namespace: string, objectName: string) {
  return { namespace, name: objectName, uid: objectName, resourceVersion: "1" };
}

it("NetworkViews lets pass what policies allowed lately, and that alone, while groups are behind without end", async () => {
  let [changes, late] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      kind,
      fc.array(step, { minLength: 120, maxLength: 120, size: "max" }),
      async (kindOf, steps) => {
        const world = new World(kindOf);
        try {
          for (const next of steps)
            if (kindOf.hasTiers || next.kind !== "tier") await world.do(next);
          await world.settle();
          changes += world.seen.changes;
          late += world.seen.late;
        } finally {
          world.end();
        }
      },
    ),
    { numRuns: runs, endOnFailure: true, ...(seed !== undefined && { seed: Number(seed) }) },
  );
  assert.ok(late > runs, `${late} of ${changes} changes came while groups were behind`);
});
