import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PodParts } from "@kip/k8s-types/testing";
import type { EndpointSlice } from "@kip/k8s-types/network";
import { ask, cluster, pod, policy, service, slice } from "../testing/explain-cluster.ts";

/** Pods with addresses of both families. */
function dual(name: string, number: number, parts: PodParts = {}) {
  const podIPs = [{ ip: `10.0.0.${number}` }, { ip: `fd00::${number}` }];
  return pod(name, `10.0.0.${number}`, { ...parts, status: { ...parts.status, podIPs } });
}

const shop = service("shop", "10.96.0.1", { selector: { app: "web" } });
const labels = { "service.kubernetes.io/service-proxy-name": "other" };

/** What is said of the pod `web` whose endpoint has conditions. */
function described(
  conditions: NonNullable<EndpointSlice["endpoints"]>[number]["conditions"],
  more: Partial<typeof cluster> = {},
): string {
  const endpoints = [{ addresses: ["10.0.0.2"], conditions: conditions ?? {} }];
  const slices = [{ ...slice("shop"), endpoints }];
  return ask(undefined, { pod: "web" }, { ...cluster, services: [shop], slices, ...more });
}

describe("explainNetwork(), of pods", () => {
  it("looks at each family that both pods have, and says where they differ", () => {
    const v4 = { ipBlock: { cidr: "0.0.0.0/0" } };
    const spec = { podSelector: { matchLabels: { app: "web" } }, ingress: [{ from: [v4] }] };
    const objects = {
      ...cluster,
      pods: [dual("a", 1), dual("web", 2), pod("old", "10.0.0.3")],
      policies: [policy("v4", spec)],
    };
    const to = (from: string, name: string, policies = objects.policies): string =>
      ask(`pod/${name}`, { pod: from, port: 80 }, { ...objects, policies });
    assert.match(
      to("a", "web"),
      /^partly: .*The answers for IPv4 and IPv6 differ:; pod shop\/a reaches pod shop\/web \(10\.0\.0\.2 .*pod shop\/web may not be reached by pod shop\/a \(fd00::1\)/,
    );
    assert.match(to("a", "web", []), /^passes: .*\(10\.0\.0\.2 .*\(fd00::2 /);
    assert.doesNotMatch(to("a", "web", []), /differ/);
    const closed = policy("closed", { ...spec, ingress: [] });
    assert.match(
      to("a", "web", [closed]),
      /^dropped: .*by pod shop\/a \(10\.0\.0\.1\) .*by pod shop\/a \(fd00::1\)/,
    );
    assert.match(to("old", "web"), /^passes: /);
    assert.doesNotMatch(to("old", "web"), /fd00|differ/);
  });

  it("knows the ports of sidecars", () => {
    const sidecar = { name: "s", restartPolicy: "Always", ports: [{ containerPort: 9090 }] };
    const once = { name: "i", ports: [{ containerPort: 9191 }] };
    const web = pod("web", "10.0.0.2", { spec: { initContainers: [sidecar, once] } });
    const answer = ask("pod/web", {}, { ...cluster, pods: [pod("a", "10.0.0.1"), web] });
    assert.match(answer, /^passes: .*10\.0\.0\.2 port 9090\/TCP/);
    assert.doesNotMatch(answer, /9191/);
  });

  it("says of an endpoint that terminates what a question for its Service says", () => {
    const serving = { ready: false, serving: true, terminating: true };
    assert.match(
      described(serving),
      /Service shop\/shop leads to pod shop\/web, which terminates: no other endpoint is ready/,
    );
    const endpoints = [{ addresses: ["10.0.0.2"], conditions: serving }];
    const slices = [slice("shop", "10.0.0.4"), { ...slice("shop"), endpoints }];
    const named = slices.map((each, i) => ({
      ...each,
      metadata: { ...each.metadata, name: `shop-${i}` },
    }));
    assert.match(described({}, { slices: named }), /sends it nothing: the endpoint terminates/);
    assert.match(described({ ready: false }), /sends it nothing: the endpoint is not ready/);
    assert.match(described({}), /Service shop\/shop leads to pod shop\/web$/);
  });

  it("says of a Service of another proxy, or without a port or IP version of the pod, that it leads nowhere", () => {
    const of = (spec: Partial<typeof shop.spec>, more: object = {}) => {
      const metadata = { ...shop.metadata, ...more };
      return described({}, { services: [{ metadata, spec: { ...shop.spec, ...spec } }] });
    };
    assert.match(of({}, { labels }), /selects pod shop\/web, but is left to another proxy/);
    const nothing = /selects pod shop\/web, but sends it nothing: .* none of the Service's ports/;
    assert.match(of({ ports: [{ name: "http", port: 80 }] }), nothing);
    assert.match(of({ clusterIP: "fd00:96::1", clusterIPs: ["fd00:96::1"] }), nothing);
    assert.match(of({ clusterIP: "None", clusterIPs: ["None"] }), /leads to pod shop\/web$/);
  });

  it("says of policies that are too large that they have no rules", () => {
    const block = (i: number) => ({ ipBlock: { cidr: `10.${i >> 8}.${i & 255}.0/24` } });
    const blocks = Array.from({ length: 16_384 }, (_, i) => block(i));
    const pods = { podSelector: { matchLabels: { app: "web" } } };
    const large = policy("large", { ...pods, ingress: [{ from: blocks }] });
    const small = policy("small", { ...pods, policyTypes: ["Ingress", "Egress"], egress: [{}] });
    assert.match(
      described({}, { policies: [large, small] }),
      /restricted by large, small \(ingress\); NetworkPolicy large, NetworkPolicy small have no rules, .* too large together, so nothing passes \(ingress\); What it may reach is restricted by small \(egress\); Service/,
    );
    const to = ask("pod/web", { port: 80 }, { ...cluster, policies: [large] });
    assert.match(to, /^dropped: .*NetworkPolicy large has more rules than a cell takes/);
  });

  it("leaves room of a namespace to the policies of pods that have not ended", () => {
    const peers = Array.from({ length: 512 }, (_, i) => ({
      podSelector: { matchLabels: { [`k${i}`]: "" } },
    }));
    const only = (job: string) => ({ podSelector: { matchLabels: { job } } });
    // Nine of them fill the room.
    const policies = ["j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8"].map((job) =>
      policy(job, { ...only(job), ingress: [{ from: peers }] }),
    );
    const web = { podSelector: { matchLabels: { app: "web" } } };
    policies.push(policy("own", { ...web, ingress: [{ from: peers }] }));
    const answer = (phase: string): string => {
      const jobs = policies.map(({ metadata: { name } }, i) =>
        pod(name, `10.0.1.${i}`, { metadata: { labels: { job: name } }, status: { phase } }),
      );
      return described({}, { policies, pods: [...cluster.pods, ...jobs] });
    };
    assert.match(answer("Running"), /own has no rules/);
    assert.doesNotMatch(answer("Succeeded"), /has no rules/);
  });

  it("leaves room of a namespace to the policies of pods that have rules of theirs", () => {
    const keys = (count: number, operator: "Exists" | "DoesNotExist") =>
      Array.from({ length: count }, (_, i) => ({ key: `k${i}`, operator }));
    const peers = keys(512, "DoesNotExist").map((each) => ({
      podSelector: { matchExpressions: [each] },
    }));
    const ingress = [{ from: peers }];
    // For none of the other pods, and 17 are too many for one with as many labels.
    const long = { podSelector: { matchExpressions: keys(4096, "Exists") }, ingress };
    const policies = Array.from({ length: 17 }, (_, i) => policy(`long-${i}`, long));
    policies.push(policy("own", { podSelector: { matchLabels: { app: "web" } }, ingress }));
    const labels = Object.fromEntries(Array.from({ length: 4096 }, (_, i) => [`l${i}`, ""]));
    const pods = [...cluster.pods, pod("big", "10.0.1.1", { metadata: { labels } })];
    const answer = described({}, { policies, pods });
    assert.match(answer, /restricted by own/);
    assert.doesNotMatch(answer, /has no rules/);
  });

  it("says of policies of administrators that are too long which direction they close", () => {
    const deny = (i: number) => ({
      action: "Deny" as const,
      to: [{ networks: [`10.${i >> 8}.${i & 255}.0/24`] }],
    });
    const egress = Array.from({ length: 20_481 }, (_, i) => deny(i));
    const tier = {
      apiVersion: "policy.networking.k8s.io/v1beta1",
      metadata: { name: "many", uid: "many" },
      spec: { tier: "Admin", priority: 1, subject: { namespaces: {} }, egress },
    };
    const tiers = [["ClusterNetworkPolicy", tier]] as const;
    assert.match(
      described({}, { tiers }),
      /No policy restricts what may reach it \(ingress\); .*by ClusterNetworkPolicy many \(egress\); They have more rules than a cell takes, so nothing passes \(egress\)/,
    );
  });
});

describe("explainNetwork(), of Services", () => {
  it("names the IP version as the reason if endpoints are of the other one", () => {
    const clusterIPs = ["10.96.0.1", "fd00:96::1"];
    const services = [service("web", "10.96.0.1", { clusterIPs })];
    const pods = [dual("a", 1), pod("web", "10.0.0.2")];
    const objects = { ...cluster, pods, services, slices: [slice("web", "10.0.0.2")] };
    assert.match(
      ask("service/web", {}, objects),
      /^partly: .*\(fd00:96::1\) refuses connections:; fd00:96::1 is an IPv6 address, and all endpoints that it could lead to are IPv4 ones$/,
    );
  });

  it("leads an external IP to its Service before it is the host port of another pod's cell", () => {
    const ports = [{ containerPort: 8080, hostPort: 80 }];
    const host = { hostIP: "10.9.0.50", hostIPs: [{ ip: "10.9.0.50" }] };
    const parts = { spec: { containers: [{ name: "c", ports }] }, status: host };
    const other = pod("other", "10.0.0.3", parts);
    const services = [service("web", "10.96.0.4", { externalIPs: ["10.9.0.50"] })];
    const pods = [pod("a", "10.0.0.1"), pod("web", "10.0.0.2"), other];
    const objects = { ...cluster, pods, services, slices: [slice("web", "10.0.0.2")] };
    assert.match(
      ask("10.9.0.50:80", {}, objects),
      /^passes: .*an address of Service shop\/web; .*\(10\.9\.0\.50\) leads to 1 endpoint/,
    );
    assert.match(ask("10.9.0.50:80", { pod: "other" }, objects), /^passes: .*is a host port of/);
  });
});
