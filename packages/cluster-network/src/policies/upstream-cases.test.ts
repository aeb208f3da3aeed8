// What the test suites of NetworkPolicies and of the Network Policy API ask of an implementation, as tables: which pod reaches which
// one by the rules that cells put in force.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { NetworkPolicy } from "@kip/k8s-types/network";
import { bucketCount, ChangeReader, type Protocol } from "@kip/network-view";
import { silentLogger } from "@kip/base";
import { NetworkRules } from "@kip/service-routing";
import { ManualClock } from "@kip/testing";
import { KernelModel, type Packet } from "../testing/kernel-model.ts";
import { NetworkViews } from "../views/network-views.ts";
import type { TierKind } from "./tier-policy.ts";
import { networkPolicyCases } from "./upstream-cases/network-policies.ts";
import { tierCases } from "./upstream-cases/tiers.ts";
import type { Case, Labels, Step } from "./upstream-cases/case.ts";

const meta = (name: string, namespace: string) => ({
  name,
  namespace,
  uid: `${namespace}/${name}`,
  resourceVersion: "1",
});
const namespaces = ["x", "y", "z"];
const pods = namespaces.flatMap((home) => ["a", "b", "c"].map((name) => `${home}/${name}`));
const addresses = new Map([
  ...pods.map((pod, i) => [pod, `10.1.0.${i + 1}`] as const),
  ["node", "10.9.0.1"],
  ["world", "192.0.2.1"],
]);
const ports = (["TCP", "UDP", "SCTP"] as const).flatMap((protocol) =>
  [80, 81].map((containerPort) => ({
    name: `p${containerPort}-${protocol.toLowerCase()}`,
    protocol,
    containerPort,
  })),
);

/** Three namespaces with three pods each, a node, and an address elsewhere. */
class World {
  readonly #clock = new ManualClock();
  readonly #stop = new AbortController();
  /** The tables of each pod's cell. */
  #kernels = new Map<string, KernelModel>();
  readonly #views = new NetworkViews({
    node: { name: "kip" },
    clock: this.#clock,
    signal: this.#stop.signal,
  });

  constructor() {
    for (const name of namespaces) this.#label(name, {});
    for (const pod of pods) this.#label(pod, {});
    this.#views.setNode({
      metadata: { name: "n", labels: { os: "linux" } },
      status: { addresses: [{ type: "InternalIP", address: addresses.get("node") ?? "" }] },
    });
  }

  async take({ policies = {}, tiers = {}, labels = {} }: Step): Promise<void> {
    for (const [key, spec] of Object.entries(policies)) {
      const [namespace = "", name = ""] = key.split("/");
      const policy: NetworkPolicy = { metadata: meta(name, namespace), spec: spec ?? {} };
      this.#views.setPolicy(policy, spec === null);
    }
    for (const [key, spec] of Object.entries(tiers)) {
      const [kind = "", name = ""] = key.split(" ");
      this.#views.setTierPolicy(kind as TierKind, { metadata: { name }, spec }, spec === null);
    }
    for (const [name, more] of Object.entries(labels)) this.#label(name, more);
    await this.#clock.advance(100);
    for (const pod of pods) this.#kernels.set(pod, await this.#kernelOf(pod));
  }

  /** By all that a cell does with what kip sends. */
  async #kernelOf(pod: string): Promise<KernelModel> {
    const kernel = new KernelModel({ nodes: [] });
    const rules = new NetworkRules({
      place: {
        podAddresses: [addresses.get(pod) ?? ""],
        cable: "cable",
        nodeAddresses: [],
        serviceRanges: [],
      },
      runNft: async (text) => {
        kernel.apply(text);
        return "";
      },
      forget: async () => {},
      logger: silentLogger,
    });
    const [namespace = ""] = pod.split("/");
    const sums = Array<number>(bucketCount).fill(0);
    using subscription = this.#views.subscribe({ podUid: pod, namespace, sums, knowsTiers: true });
    const reader = new ChangeReader();
    for (const piece of await subscription.next(this.#stop.signal))
      for (const change of reader.push(piece)) await rules.apply(change);
    return kernel;
  }

  end(): void {
    this.#stop.abort();
  }

  passes(from: string, to: string, on: { readonly port: number; readonly protocol: Protocol }) {
    const packet: Packet = {
      source: addresses.get(from) ?? "",
      address: addresses.get(to) ?? "",
      port: on.port,
      protocol: on.protocol.toLowerCase() as Packet["protocol"],
    };
    const [own, other] = [this.#kernels.get(from), this.#kernels.get(to)];
    return (own?.passes("egress", packet) ?? true) && (other?.passes("ingress", packet) ?? true);
  }

  #label(name: string, more: Labels): void {
    const [namespace = "", pod] = name.split("/");
    if (pod === undefined) {
      const labels = { ns: name, "kubernetes.io/metadata.name": name, ...more };
      this.#views.setNamespace({ metadata: { ...meta(name, ""), labels } });
      return;
    }
    const ip = addresses.get(name) ?? "";
    this.#views.setPod(
      podWith({
        metadata: { ...meta(pod, namespace), labels: { pod, ...more } },
        spec: { containers: [{ name: "c", ports }] },
        status: { podIP: ip, podIPs: [{ ip }], phase: "Running" },
      }),
    );
  }
}

/** Whether a pair is of a pattern as `x > y/a`: a pod, all of a namespace, or `*`. */
function isOf(pattern: string, from: string, to: string): boolean {
  const [source = "", target = ""] = pattern.split(" > ");
  const fits = (wanted: string, name: string): boolean =>
    wanted === "*" || wanted === name || name.startsWith(`${wanted}/`);
  return fits(source, from) && fits(target, to);
}

/** The pairs of different ones that do not do what is expected. */
function differences(world: World, on: string, { closed = [], open = [] }: Step["expect"][string]) {
  const [protocol = "", port = ""] = on.split(" ");
  const names = [...addresses.keys()];
  return names.flatMap((from) =>
    names.flatMap((to) => {
      if (from === to || (!from.includes("/") && !to.includes("/"))) return [];
      const matches = (list: readonly string[]): boolean =>
        list.some((each) => isOf(each, from, to));
      const expected = matches(open) || !matches(closed);
      const found = world.passes(from, to, {
        protocol: protocol as Protocol,
        port: Number(port),
      });
      return found === expected ? [] : [`${from} > ${to}: ${found ? "open" : "closed"}`];
    }),
  );
}

function check({ name, steps }: Case): void {
  it(name, async () => {
    const world = new World();
    try {
      for (const [i, step] of steps.entries()) {
        await world.take(step);
        for (const [on, expected] of Object.entries(step.expect))
          assert.deepEqual(differences(world, on, expected), [], `step ${i + 1}, ${on}`);
      }
    } finally {
      world.end();
    }
  });
}

describe("NetworkPolicies", () => {
  networkPolicyCases.forEach(check);
});

describe("policies of administrators", () => {
  tierCases.forEach(check);
});
