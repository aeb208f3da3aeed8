// Random histories of a cluster: whatever came in whatever order, each cell has what the objects mean in the end. KIP_MODEL_RUNS=2000
// makes more of them.
import assert from "node:assert/strict";
import { it } from "node:test";
import * as fc from "fast-check";
import { podWith } from "@kip/k8s-types/testing";
import type { LabelSelector } from "@kip/k8s-types/network";
import { SlowClock } from "@kip/testing";
import {
  ClusterModel,
  type ModelPod,
  type ModelPolicy,
  type ModelService,
  type ModelTier,
  type PeerShape,
  type PortShape,
  type RuleShape,
  type Shape,
} from "../testing/cluster-model.ts";
import { TestCell } from "../testing/test-cell.ts";
import { NetworkViews, type ViewSubscription } from "./network-views.ts";

const runs = Number(process.env["KIP_MODEL_RUNS"] ?? 20);
const seed = process.env["KIP_MODEL_SEED"];

/** Small enough that histories cross them often, in both directions. */
const most = {
  services: { elements: 24, bytes: 1e6 },
  policies: { elements: 260, bytes: 330 },
};
const namespaceNames = ["a", "b"] as const;
const podNumbers = [0, 1, 2, 3, 4, 5, 6];
const v4 = (slot: number): string => `10.1.0.${slot + 1}`;
const v6 = (slot: number): string => `fd00::1:${slot + 1}`;
const slots = 5;
const peers = Array.from({ length: slots }, (_, slot) => [v4(slot), v6(slot)]).flat();
const attempts = [...peers, "10.1.0.99", "192.0.2.1"].flatMap((address) =>
  [80, 8080, 9090].flatMap((port) => [
    { address, port, protocol: "TCP" as const },
    ...(port === 80 ? [{ address, port, protocol: "UDP" as const }] : []),
  ]),
);

const label = fc.constantFrom("x", "y");
const namespace = fc.constantFrom(...namespaceNames);
const month = fc.integer({ min: 1, max: 9 });
const shape: fc.Arbitrary<Shape> = fc.oneof(
  fc.constant({ is: "any" as const }),
  fc.record({ is: fc.constantFrom("one" as const, "not" as const), value: label }),
);
const podShape = fc.record({ namespaces: shape, pods: shape });
const peer = (home: string): fc.Arbitrary<PeerShape> =>
  fc.oneof(
    shape.map((pods) => ({ namespace: home, pods })),
    podShape,
    fc.constantFrom(
      { blockOf: "10.1.0.0/24", except: ["10.1.0.2"] },
      { blockOf: "fd00::1:0/112", except: [] },
    ),
  );
const port: fc.Arbitrary<PortShape> = fc.constantFrom(
  { number: 8080 },
  { isNamed: true as const },
  { protocol: "UDP" as const },
  { protocol: "TCP" as const },
);
const rules = (home: string): fc.Arbitrary<readonly RuleShape[] | undefined> =>
  fc.option(
    fc.array(
      fc.record({
        peers: fc.array(peer(home), { maxLength: 3 }),
        ports: fc.uniqueArray(port, { maxLength: 2 }),
      }),
      { maxLength: 2 },
    ),
    { nil: undefined },
  );

/** True once in so many times. */
function oneIn(times: number): fc.Arbitrary<boolean> {
  return fc.nat(times - 1).map((drawn) => drawn === 0);
}

const step = fc.oneof(
  fc.record({ kind: fc.constant("namespace" as const), name: namespace, label }),
  fc.record({
    kind: fc.constant("pod" as const),
    number: fc.constantFrom(...podNumbers),
    label,
    home: namespace,
    hasEnded: oneIn(4),
    hasIPv6: fc.boolean(),
    port: fc.constantFrom(8080, 9090, undefined),
  }),
  fc.record({ kind: fc.constant("pod is gone" as const), number: fc.constantFrom(...podNumbers) }),
  namespace.chain((home) =>
    fc.record({
      kind: fc.constant("policy" as const),
      number: fc.nat(3),
      home: fc.constant(home),
      month,
      subject: shape,
      ingress: rules(home),
      egress: rules(home),
    }),
  ),
  fc.record({ kind: fc.constant("policy is gone" as const), home: namespace, number: fc.nat(3) }),
  fc.record({
    kind: fc.constant("tier" as const),
    number: fc.nat(2),
    isGone: fc.boolean(),
    tier: fc.constantFrom("admin" as const, "baseline" as const),
    priority: fc.nat(2),
    subject: podShape,
    action: fc.constantFrom("allow" as const, "deny" as const, "pass" as const),
    direction: fc.constantFrom("ingress" as const, "egress" as const),
    peers: podShape,
    port: fc.constantFrom(8080, undefined),
  }),
  fc.record({
    kind: fc.constant("service" as const),
    number: fc.nat(2),
    home: namespace,
    month,
    isGone: oneIn(4),
    isDual: fc.boolean(),
    externalIps: fc.uniqueArray(
      fc.constantFrom("192.0.2.1", "192.0.2.2", "10.96.0.1", "2001:db8::1"),
    ),
    ports: fc.constantFrom([80], [80, 81], [81]),
    endpoints: fc.uniqueArray(fc.constantFrom(...peers), { maxLength: 4 }),
  }),
  fc.record({
    kind: fc.constant("cell" as const),
    number: fc.constantFrom(...podNumbers),
    knowsTiers: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("cell ends" as const), number: fc.constantFrom(...podNumbers) }),
  fc.record({ kind: fc.constant("time" as const), lookMs: fc.constantFrom(0, 1, 30) }),
  fc.record({ kind: fc.constant("settle" as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type StepOf<K extends Step["kind"]> = Extract<Step, { readonly kind: K }>;

interface Follower {
  readonly cell: TestCell;
  readonly knowsTiers: boolean;
  readonly subscription: ViewSubscription;
  readonly stop: AbortController;
}

function meta(name: string, home: string) {
  return { name, namespace: home, uid: `${home}/${name}`, resourceVersion: "1" };
}

function selector(of: Shape): LabelSelector {
  if (of.is === "any") return {};
  if (of.is === "one") return { matchLabels: { app: of.value } };
  return { matchExpressions: [{ key: "app", operator: "NotIn", values: [of.value] }] };
}

function created(inMonth: number): string {
  return `2026-0${inMonth}-01T00:00:00Z`;
}

function peerOf(of: PeerShape) {
  if ("blockOf" in of) {
    const except = of.except.map((address) => `${address}/32`);
    return { ipBlock: { cidr: of.blockOf, ...(except.length > 0 && { except }) } };
  }
  const podSelector = selector(of.pods);
  return of.namespaces
    ? { namespaceSelector: selector(of.namespaces), podSelector }
    : { podSelector };
}

function portOf(of: PortShape) {
  if ("number" in of) return { port: of.number };
  return "protocol" in of ? { protocol: of.protocol } : { port: "http" };
}

/** The views and the model of one history. */
class World {
  readonly #stop = new AbortController();
  readonly #clock = new SlowClock();
  readonly #model = new ClusterModel(most);
  readonly #views = new NetworkViews({
    node: { name: "kip" },
    clock: this.#clock,
    most,
    signal: this.#stop.signal,
  });
  readonly #followers = new Map<string, Follower>();
  /** What cells had when they ended: they may come back. */
  readonly #ended = new Map<string, TestCell>();
  readonly seen: Set<string>;

  constructor(seen: Set<string>) {
    this.seen = seen;
    for (const name of namespaceNames) this.#setNamespace({ kind: "namespace", name, label: "x" });
    const pod = { kind: "pod", label: "x", hasEnded: false, hasIPv6: true, port: 8080 } as const;
    for (const number of podNumbers) {
      this.#setPod({ ...pod, number, home: number % 2 === 0 ? "a" : "b" });
      this.#begin(`p${number}`, number > 0);
    }
  }

  async do(next: Step): Promise<void> {
    if (next.kind === "namespace") this.#setNamespace(next);
    else if (next.kind === "pod") this.#setPod(next);
    else if (next.kind === "pod is gone") this.#endPod(`p${next.number}`);
    else if (next.kind === "policy") this.#setPolicy(next);
    else if (next.kind === "policy is gone") this.#endPolicy(next);
    else if (next.kind === "tier") this.#setTier(next);
    else if (next.kind === "service") this.#setService(next);
    else if (next.kind === "cell") this.#begin(`p${next.number}`, next.knowsTiers);
    else if (next.kind === "cell ends") this.#end(`p${next.number}`);
    else if (next.kind === "time") {
      this.#clock.lookMs = next.lookMs;
      await this.#clock.advance(40);
      await new Promise((resolve) => setImmediate(resolve));
    } else await this.settle();
  }

  /** Lets all work be done, and compares. */
  async settle(): Promise<void> {
    const count = (): number =>
      [...this.#followers.values()].reduce((sum, { cell }) => sum + cell.changes, 0);
    for (let idle = 0, before = -1; idle < 6;) {
      await this.#clock.advance(200);
      await new Promise((resolve) => setImmediate(resolve));
      const { index, groups } = this.#views;
      const isQuiet = !index.isChanged && groups.isSettled && count() === before;
      idle = isQuiet ? idle + 1 : 0;
      before = count();
    }
    this.#compare();
  }

  end(): void {
    this.#stop.abort();
    for (const uid of this.#followers.keys()) this.#end(uid);
  }

  #compare(): void {
    const refused = this.#model.refusedPolicies();
    const table = this.#model.table();
    this.seen.add(`policies refused: ${refused.size > 0}`);
    this.seen.add(`services refused: ${table.size < this.#model.services.size}`);
    for (const [uid, { cell, knowsTiers }] of this.#followers) {
      for (const direction of ["ingress", "egress"] as const)
        for (const attempt of attempts) {
          const wanted = this.#model.passes(uid, { direction, attempt }, { knowsTiers, refused });
          const where = `${uid} ${direction} ${JSON.stringify(attempt)}`;
          assert.equal(cell.passes(direction, attempt), wanted, where);
          this.seen.add(`${direction}: ${wanted}`);
        }
      assert.deepEqual(tableOf(cell), expectedTable(table), `Services of ${uid}`);
    }
  }

  #setNamespace({ name, label: app }: StepOf<"namespace">): void {
    this.#model.namespaces.set(name, app);
    this.#views.setNamespace({ metadata: { ...meta(name, ""), labels: { app } } });
  }

  #setPod({ number, label: app, home, hasEnded, hasIPv6, port: named }: StepOf<"pod">): void {
    const uid = `p${number}`;
    // A pod stays in its namespace.
    const inNamespace = this.#model.pods.get(uid)?.namespace ?? home;
    const slot = number % slots;
    const ips = hasIPv6 ? [v4(slot), v6(slot)] : [v4(slot)];
    const pod: ModelPod = {
      namespace: inNamespace,
      label: app,
      addresses: hasEnded ? [] : ips,
      port: named,
    };
    this.#model.pods.set(uid, pod);
    const ports = named === undefined ? [] : [{ name: "http", containerPort: named }];
    this.#views.setPod(
      podWith({
        metadata: { ...meta(uid, inNamespace), uid, labels: { app } },
        spec: { containers: [{ name: "c", ports }] },
        status: {
          phase: hasEnded ? "Succeeded" : "Running",
          podIP: ips[0] ?? "",
          podIPs: ips.map((ip) => ({ ip })),
        },
      }),
    );
  }

  #endPod(uid: string): void {
    const pod = this.#model.pods.get(uid);
    if (!pod) return;
    this.#end(uid);
    this.#model.pods.delete(uid);
    this.#views.setPod(podWith({ metadata: { ...meta(uid, pod.namespace), uid } }), true);
  }

  #setPolicy(next: StepOf<"policy">): void {
    const { number, home, subject, ingress, egress } = next;
    const key = `${home}/n${number}`;
    // The time of creation of an object never changes.
    const at = this.#model.policies.get(key)?.created ?? created(next.month);
    const policy: ModelPolicy = { namespace: home, created: at, subject, ingress, egress };
    this.#model.policies.set(key, policy);
    const read = (list: readonly RuleShape[], side: "from" | "to") =>
      list.map((rule) => ({ [side]: rule.peers.map(peerOf), ports: rule.ports.map(portOf) }));
    this.#views.setPolicy({
      metadata: { ...meta(`n${number}`, home), creationTimestamp: at },
      spec: {
        podSelector: selector(subject),
        policyTypes: [...(ingress ? ["Ingress"] : []), ...(egress ? ["Egress"] : [])],
        ...(ingress && { ingress: read(ingress, "from") }),
        ...(egress && { egress: read(egress, "to") }),
      },
    });
  }

  #endPolicy({ home, number }: StepOf<"policy is gone">): void {
    if (!this.#model.policies.delete(`${home}/n${number}`)) return;
    this.#views.setPolicy({ metadata: meta(`n${number}`, home), spec: { podSelector: {} } }, true);
  }

  #setTier({ number, isGone, ...tier }: StepOf<"tier">): void {
    const name = `t${number}`;
    const title = `ClusterNetworkPolicy ${name}`;
    const model: ModelTier = tier;
    if (isGone) this.#model.tiers.delete(title);
    else this.#model.tiers.set(title, model);
    const pods = (of: ModelTier["subject"]) => ({
      pods: {
        namespaceSelector: selector(of.namespaces ?? { is: "any" }),
        podSelector: selector(of.pods),
      },
    });
    const rule = {
      action: { allow: "Accept", deny: "Deny", pass: "Pass" }[tier.action],
      [tier.direction === "ingress" ? "from" : "to"]: [pods(tier.peers)],
      ...(tier.port !== undefined && {
        protocols: [{ tcp: { destinationPort: { number: tier.port } } }],
      }),
    };
    const spec = {
      tier: tier.tier === "admin" ? "Admin" : "Baseline",
      priority: tier.priority,
      subject: pods(tier.subject),
      [tier.direction]: [rule],
    };
    this.#views.setTierPolicy("ClusterNetworkPolicy", { metadata: { name }, spec }, isGone);
  }

  #setService(next: StepOf<"service">): void {
    const { number, home, isGone, isDual, ports, endpoints } = next;
    const [name, key] = [`s${number}`, `${home}/s${number}`];
    const at = this.#model.services.get(key)?.created ?? created(next.month);
    const place = namespaceNames.findIndex((each) => each === home) * 10 + number;
    const clusterIps = [`10.96.0.${place}`, ...(isDual ? [`fd00::96:${place}`] : [])];
    const externalIps = next.externalIps.filter((address) => isDual || !address.includes(":"));
    const model: ModelService = { created: at, clusterIps, externalIps, ports, endpoints };
    if (isGone) this.#model.services.delete(key);
    else this.#model.services.set(key, model);
    const metadata = { ...meta(name, home), creationTimestamp: at };
    const named = ports.map((each) => ({ name: `of-${each}`, port: each }));
    const spec = {
      clusterIP: clusterIps[0] ?? "",
      clusterIPs: clusterIps,
      externalIPs: [...next.externalIps],
    };
    this.#views.setService({ metadata, spec: { ...spec, ports: named } }, isGone);
    for (const addressType of ["IPv4", "IPv6"]) {
      const own = endpoints.filter((each) => each.includes(":") === (addressType === "IPv6"));
      const labels = { "kubernetes.io/service-name": name };
      this.#views.setSlice(
        {
          metadata: { ...meta(`${name}-${addressType}`, home), labels },
          addressType,
          ports: ports.map((each) => ({ name: `of-${each}`, port: 8000 + each, protocol: "TCP" })),
          endpoints: own.map((address) => ({ addresses: [address], conditions: { ready: true } })),
        },
        isGone,
      );
    }
  }

  #begin(uid: string, knowsTiers: boolean): void {
    const pod = this.#model.pods.get(uid);
    if (!pod || this.#followers.has(uid)) return;
    const cell = this.#ended.get(uid) ?? new TestCell();
    const which = { podUid: uid, namespace: pod.namespace, sums: cell.sums, knowsTiers };
    const subscription = this.#views.subscribe(which);
    const stop = new AbortController();
    const failed = (error: unknown): void => void setImmediate(() => assert.fail(String(error)));
    cell.follow(subscription, AbortSignal.any([stop.signal, this.#stop.signal])).catch(failed);
    this.#followers.set(uid, { cell, knowsTiers, subscription, stop });
    this.#model.onCells.add(uid);
  }

  #end(uid: string): void {
    const follower = this.#followers.get(uid);
    if (!follower) return;
    this.#followers.delete(uid);
    this.#model.onCells.delete(uid);
    follower.stop.abort();
    follower.subscription[Symbol.dispose]();
    this.#ended.set(uid, follower.cell);
  }
}

function tableOf({ services }: TestCell) {
  return [...services]
    .map(([key, { clusterIps, externalIps = [], ports }]) => ({
      key,
      addresses: [...new Set([...clusterIps, ...externalIps])].toSorted(),
      ports: ports.map(({ port: number, endpoints }) => ({ number, endpoints: [...endpoints] })),
    }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

function expectedTable(table: ReadonlyMap<string, ModelService>): ReturnType<typeof tableOf> {
  return [...table]
    .map(([key, { clusterIps, externalIps, ports, endpoints }]) => ({
      key,
      addresses: [...new Set([...clusterIps, ...externalIps])].toSorted(),
      ports: ports.map((number) => ({
        number,
        endpoints: endpoints
          .map((each) =>
            each.includes(":") ? `[${each}]:${8000 + number}` : `${each}:${8000 + number}`,
          )
          .toSorted(),
      })),
    }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

it("NetworkViews gives each cell what the objects of the cluster mean, whatever came before", async () => {
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 30, maxLength: 60, size: "max" }),
      async (steps) => {
        const world = new World(seen);
        try {
          for (const next of steps) await world.do(next);
          await world.settle();
        } finally {
          world.end();
        }
      },
    ),
    { numRuns: runs, ...(seed !== undefined && { seed: Number(seed) }) },
  );
  // Fewer histories may miss one by chance.
  if (runs < 100) return;
  for (const what of ["policies refused", "services refused", "ingress", "egress"])
    for (const is of [true, false]) assert.ok(seen.has(`${what}: ${is}`), `${what}: ${is}`);
});
