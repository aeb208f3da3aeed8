import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { silentLogger } from "@kip/base";
import type { Node, Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import { podWith } from "@kip/k8s-types/testing";
import { bucketCount, ChangeReader } from "@kip/network-view";
import { NetworkRules } from "@kip/service-routing";
import { ManualClock } from "@kip/testing";
import { KernelModel, type Packet } from "../testing/kernel-model.ts";
import { NetworkViews } from "../views/network-views.ts";
import { noObjects, podAt, type ClusterObjects } from "./cluster-objects.ts";
import { explainNetwork } from "./explain-network.ts";

/** Address of the one node. */
const nodeAddress = "10.9.0.1";
const namespaceNames = ["a", "b"] as const;
const label = fc.constantFrom("x", "y", "z");
const namespace = fc.constantFrom(...namespaceNames);

function meta(name: string, inNamespace: string) {
  return { name, namespace: inNamespace, uid: `${inNamespace}/${name}`, resourceVersion: "1" };
}

const pods: fc.Arbitrary<readonly Pod[]> = fc
  .array(
    fc.record({
      namespace,
      app: label,
      isHost: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
      isReady: fc.integer({ min: 0, max: 3 }).map((n) => n > 0),
      named: fc.constantFrom(8080, 9090, undefined),
    }),
    { minLength: 2, maxLength: 6 },
  )
  .map((list) =>
    list.map(({ namespace: home, app, isHost, isReady, named }, index) => {
      const ip = `10.1.0.${index + 1}`;
      const ports = named === undefined ? [] : [{ name: "http", containerPort: named }];
      return podWith({
        metadata: { ...meta(`p${index}`, home), labels: { app } },
        spec: { nodeName: "kip", hostNetwork: isHost, containers: [{ name: "c", ports }] },
        status: {
          phase: "Running",
          podIP: ip,
          podIPs: [{ ip }],
          conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
        },
      });
    }),
  );

interface ServiceSeed {
  readonly namespace: string;
  readonly app: string;
  readonly isLocal: boolean;
  readonly isExternalLocal: boolean;
  readonly hasExternal: boolean;
  readonly range: string | undefined;
}

const services: fc.Arbitrary<readonly ServiceSeed[]> = fc.array(
  fc.record({
    namespace,
    app: label,
    isLocal: fc.boolean(),
    isExternalLocal: fc.boolean(),
    hasExternal: fc.boolean(),
    range: fc.constantFrom("10.1.0.0/30", "192.0.2.0/24", undefined),
  }),
  { maxLength: 3 },
);

function serviceOf(seed: ServiceSeed, index: number): StoredService {
  const address = `10.96.0.${index + 1}`;
  return {
    metadata: meta(`s${index}`, seed.namespace),
    spec: {
      type: seed.hasExternal ? "LoadBalancer" : "ClusterIP",
      clusterIP: address,
      clusterIPs: [address],
      selector: { app: seed.app },
      internalTrafficPolicy: seed.isLocal ? "Local" : "Cluster",
      externalTrafficPolicy: seed.isExternalLocal ? "Local" : "Cluster",
      ports: [{ port: 80, ...(seed.hasExternal && { nodePort: 30_000 + index }) }],
      ...(seed.range !== undefined && { loadBalancerSourceRanges: [seed.range] }),
    },
    ...(seed.hasExternal && {
      status: { loadBalancer: { ingress: [{ ip: `198.51.100.${index + 1}` }] } },
    }),
  };
}

function sliceOf(seed: ServiceSeed, index: number, all: readonly Pod[]): EndpointSlice {
  const own = all.filter(
    ({ metadata }) =>
      metadata.namespace === seed.namespace && metadata.labels?.["app"] === seed.app,
  );
  return {
    metadata: {
      ...meta(`s${index}-1`, seed.namespace),
      labels: { "kubernetes.io/service-name": `s${index}` },
    },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: own.map(({ status }, at) => ({
      addresses: [status?.podIP ?? ""],
      conditions: { ready: status?.conditions?.[0]?.status === "True" },
      nodeName: at % 2 === 0 ? "kip" : "other",
    })),
  };
}

const selector = fc.oneof(
  fc.constant({}),
  label.map((app) => ({ matchLabels: { app } })),
  label.map((app) => ({ matchExpressions: [{ key: "app", operator: "NotIn", values: [app] }] })),
);
const namespaceSelector = fc.oneof(
  fc.constant({}),
  namespace.map((name) => ({ matchLabels: { name } })),
);
const peer = fc.oneof(
  selector.map((podSelector) => ({ podSelector })),
  fc.record({ namespaceSelector, podSelector: selector }),
  fc.constantFrom(
    { ipBlock: { cidr: "10.1.0.0/24", except: ["10.1.0.2/31"] } },
    { ipBlock: { cidr: "0.0.0.0/0", except: ["10.1.0.0/24"] } },
    { ipBlock: { cidr: `${nodeAddress}/32` } },
  ),
);
const port = fc.constantFrom(
  { port: 8080 },
  { port: "http" },
  { port: 8000, endPort: 8090 },
  { protocol: "UDP", port: 8080 },
  { protocol: "TCP" },
);
const peers = fc.array(peer, { maxLength: 2 });
const ports = fc.array(port, { maxLength: 2 });

const policies: fc.Arbitrary<readonly NetworkPolicy[]> = fc
  .array(
    fc.record({
      namespace,
      podSelector: selector,
      policyTypes: fc.subarray(["Ingress", "Egress"], { minLength: 1 }),
      ingress: fc.array(fc.record({ from: peers, ports }), { maxLength: 2 }),
      egress: fc.array(fc.record({ to: peers, ports }), { maxLength: 2 }),
    }),
    { maxLength: 4 },
  )
  .map((list) =>
    list.map(({ namespace: home, ...spec }, index) => ({
      metadata: meta(`n${index}`, home),
      spec,
    })),
  );

const chosenPods = fc.oneof(
  namespaceSelector.map((namespaces) => ({ namespaces })),
  fc.record({ namespaceSelector, podSelector: selector }).map((pods) => ({ pods })),
);
const outside = fc.constantFrom(
  { nodes: {} },
  { networks: ["10.1.0.0/30", "192.0.2.0/24"] },
  { domainNames: ["example.com"] },
);
const alphaPorts = fc.array(
  fc.constantFrom(
    { portNumber: { protocol: "TCP", port: 8080 } },
    { portRange: { protocol: "TCP", start: 9000, end: 9100 } },
    { namedPort: "http" },
  ),
  { maxLength: 2 },
);
const protocolMatches = fc.array(
  fc.constantFrom({ tcp: {} }, { udp: {} }, { destinationNamedPort: "http" }),
  { maxLength: 2 },
);

function tierSpec(allow: string, field: string, matches: fc.Arbitrary<readonly object[]>) {
  const action = fc.constantFrom(allow, "Deny", "Pass");
  const from = fc.array(chosenPods, { minLength: 1, maxLength: 2 });
  const to = fc.array(fc.oneof(chosenPods, outside), { minLength: 1, maxLength: 2 });
  return fc.record({
    tier: fc.constantFrom("Admin", "Baseline"),
    priority: fc.integer({ min: 0, max: 3 }),
    subject: chosenPods,
    ingress: fc.array(fc.record({ action, from, [field]: matches }), { maxLength: 2 }),
    egress: fc.array(fc.record({ action, to, [field]: matches }), { maxLength: 2 }),
  });
}

const tiers: fc.Arbitrary<ClusterObjects["tiers"]> = fc
  .array(
    fc.oneof(
      tierSpec("Allow", "ports", alphaPorts).map((spec) =>
        spec.tier === "Admin"
          ? (["AdminNetworkPolicy", spec] as const)
          : (["BaselineAdminNetworkPolicy", spec] as const),
      ),
      tierSpec("Accept", "protocols", protocolMatches).map(
        (spec) => ["ClusterNetworkPolicy", spec] as const,
      ),
    ),
    { maxLength: 3 },
  )
  .map((list) =>
    list.map(([kind, spec], index) => {
      const name = kind === "BaselineAdminNetworkPolicy" ? "default" : `t${index}`;
      return [kind, { metadata: { name }, spec }] as const;
    }),
  );

const namespaces: readonly Namespace[] = namespaceNames.map((name) => ({
  metadata: { ...meta(name, ""), labels: { name } },
}));
const nodes: readonly Node[] = [
  {
    metadata: { name: "kip", labels: { type: "virtual-kubelet" } },
    status: { addresses: [{ type: "InternalIP", address: nodeAddress }] },
  },
];

/** Small clusters of one virtual node: pods, Services and policies that often meet. */
const clusterArbitrary: fc.Arbitrary<ClusterObjects> = fc
  .record({ pods, services, policies, tiers })
  .map((made) => ({
    ...noObjects,
    pods: made.pods,
    services: made.services.map(serviceOf),
    slices: made.services.map((seed, index) => sliceOf(seed, index, made.pods)),
    policies: made.policies,
    tiers: made.tiers,
    namespaces,
    nodes,
    serviceRanges: ["10.96.0.0/16"],
  }));

const targets = [
  "10.1.0.1",
  "10.1.0.2",
  "10.1.0.3",
  "10.96.0.1",
  "10.96.0.2",
  "10.96.7.7",
  "198.51.100.1",
  "192.0.2.9",
  nodeAddress,
] as const;

/** The views of a cluster as kip has them. */
function viewsOf(objects: ClusterObjects, signal: AbortSignal): NetworkViews {
  const views = new NetworkViews({ node: { name: "kip" }, clock: new ManualClock(), signal });
  for (const namespace of objects.namespaces) views.setNamespace(namespace);
  for (const pod of objects.pods) views.setPod(pod);
  for (const service of objects.services) views.setService(service);
  for (const slice of objects.slices) views.setSlice(slice);
  for (const policy of objects.policies) views.setPolicy(policy);
  for (const node of objects.nodes) views.setNode(node);
  for (const [kind, object] of objects.tiers) views.setTierPolicy(kind, object);
  return views;
}

/** The tables of a pod's cell: by all that a cell does with what kip sends. */
async function kernelOf(views: NetworkViews, pod: Pod, ranges: readonly string[]) {
  const isOwn = pod.spec.hostNetwork !== true;
  const podAddresses = isOwn ? [pod.status?.podIP ?? ""] : [];
  const kernel = new KernelModel({
    nodes: [nodeAddress],
    pods: [pod.status?.podIP ?? ""],
    service_ranges: ranges,
  });
  const rules = new NetworkRules({
    place: {
      podAddresses,
      cable: isOwn ? "cable" : undefined,
      nodeAddresses: [nodeAddress],
      serviceRanges: ranges,
    },
    runNft: async (text) => {
      kernel.apply(text);
      return "";
    },
    forget: async () => {},
    logger: silentLogger,
  });
  const { uid, namespace } = pod.metadata;
  const sums = Array<number>(bucketCount).fill(0);
  using subscription = views.subscribe({ podUid: uid, namespace, sums, knowsTiers: true });
  const reader = new ChangeReader();
  const stop = new AbortController();
  for (;;) {
    const nothing = new Promise<undefined>((resolve) => setImmediate(resolve, undefined));
    const next = subscription.next(stop.signal).catch(() => undefined);
    const pieces = await Promise.race([next, nothing]);
    if (!pieces) break;
    for (const piece of pieces) for (const change of reader.push(piece)) await rules.apply(change);
  }
  stop.abort();
  return kernel;
}

/** What becomes of a packet by the tables of both sides. */
async function outcomeByRules(
  objects: ClusterObjects,
  source: Pod,
  packet: Packet,
): Promise<string> {
  const stop = new AbortController();
  const views = viewsOf(objects, stop.signal);
  const kernel = await kernelOf(views, source, objects.serviceRanges);
  const passage = kernel.translate(packet);
  if (typeof passage === "string") return passage;
  const outcomes = new Set<string>();
  for (const each of passage.to) {
    const isSelf = each.address === each.source;
    const target = podAt(objects, each.address);
    const other = target && (await kernelOf(views, target, objects.serviceRanges));
    const passes =
      isSelf || (kernel.passes("egress", each) && (other?.passes("ingress", each) ?? true));
    outcomes.add(passes ? "passes" : "dropped");
  }
  stop.abort();
  return outcomes.size === 1 ? ([...outcomes][0] ?? "") : "partly";
}

describe("explainNetwork(), by the rules of cells", () => {
  it("answers what the tables of both pods do with the packet", async () => {
    const question = fc.record({
      objects: clusterArbitrary,
      from: fc.nat(),
      port: fc.constantFrom(80, 8080, 9090, 30_000),
      protocol: fc.constantFrom("TCP", "UDP"),
      address: fc.constantFrom(...targets),
    } as const);
    const seen = new Map<string, number>();
    const check = async (asked: typeof question extends fc.Arbitrary<infer T> ? T : never) => {
      const { objects, address, port, protocol } = asked;
      const source = objects.pods[asked.from % objects.pods.length];
      assert.ok(source);
      const found = explainNetwork(objects, {
        pod: `${source.metadata.namespace}/${source.metadata.name}`,
        to: address,
        namespace: "default",
        port,
        protocol,
      });
      const outcome = await outcomeByRules(objects, source, {
        source: source.status?.podIP ?? "",
        address,
        protocol: protocol === "TCP" ? "tcp" : "udp",
        port,
      });
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      assert.equal(found.outcome, outcome, found.sentences.join("\n"));
    };
    await fc.assert(fc.asyncProperty(question, check), { numRuns: 500 });
    for (const outcome of ["passes", "dropped", "refused"])
      assert.ok((seen.get(outcome) ?? 0) > 3, `${outcome}: ${JSON.stringify([...seen])}`);
  });
});
