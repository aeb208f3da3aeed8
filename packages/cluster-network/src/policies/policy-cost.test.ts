import assert from "node:assert/strict";
import { it } from "node:test";
import { podWith } from "@kip/k8s-types/testing";
import type { LabelSelectorRequirement, NetworkPolicy } from "@kip/k8s-types/network";
import { podFacts } from "./pod-facts.ts";
import { isComparable } from "./policy-cost.ts";
import { PolicyIndex } from "./policy-index.ts";

const metadata = { namespace: "a", name: "a", uid: "a", resourceVersion: "1" };

function viewOf(spec: NonNullable<NetworkPolicy["spec"]>) {
  const index = new PolicyIndex();
  const computed = new Set<string>();
  const { groups } = index;
  const original = groups.name.bind(groups);
  groups.name = (selector) => {
    const name = original(selector);
    computed.add(name);
    return name;
  };
  index.groups.setPod(
    "a",
    podFacts(podWith({ metadata, spec: {}, status: { podIP: "10.0.0.1" } })),
  );
  index.setPolicy({ metadata, spec });
  return { view: index.policyOf("a")?.view, computed: computed.size };
}

const peer = (i: number) => ({ podSelector: { matchLabels: { app: String(i) } } });
const many = (count: number) => Array.from({ length: count }, (_, i) => peer(i));
const http = [{ port: "http", protocol: "TCP" }];

it("PolicyIndex lets nothing pass of a policy with very many selectors or named ports, and computes none of it", () => {
  const podSelector = {};
  for (const spec of [
    { podSelector, policyTypes: ["Egress"], egress: many(513).map((to) => ({ to: [to] })) },
    { podSelector, policyTypes: ["Egress"], egress: [{ to: many(65), ports: http }] },
    { podSelector, policyTypes: ["Egress"], egress: many(65).map(() => ({ ports: http })) },
    { podSelector, policyTypes: ["Egress"], egress: many(16_385).map(() => ({})) },
  ])
    assert.deepEqual(viewOf(spec), { view: { egress: [] }, computed: 0 });
  const absent = (key: number) => ({ key: String(key), operator: "DoesNotExist" }) as const;
  const numbers = Array.from({ length: 4097 }, (_, i) => i);
  const long = (matchExpressions: readonly LabelSelectorRequirement[]) => [
    { podSelector: { matchExpressions } },
  ];
  for (const from of [
    many(513),
    long(numbers.map(absent)),
    long([{ key: "app", operator: "NotIn", values: numbers.map(String) }]),
  ])
    assert.deepEqual(viewOf({ podSelector, ingress: [{ from }] }), {
      view: { ingress: [] },
      computed: 0,
    });
  const ofLong = { matchExpressions: numbers.map(absent) };
  assert.deepEqual(viewOf({ podSelector: ofLong, ingress: [{ from: many(2) }] }), {
    view: { ingress: [] },
    computed: 0,
  });
  const few = viewOf({ podSelector, ingress: [{ from: many(512) }, { from: [] }] });
  assert.equal(few.computed, 512);
});

it("isComparable() counts each long selector as the terms that it has, or as the labels of a pod if these are fewer", () => {
  const isWith = (labelCount: number, policies: number, terms: number): boolean => {
    const labels = Object.fromEntries(Array.from({ length: labelCount }, (_, i) => [`l${i}`, ""]));
    const matchLabels = Object.fromEntries(Array.from({ length: terms }, (_, i) => [`l${i}`, ""]));
    const spec = { podSelector: { matchLabels } };
    return isComparable(
      labels,
      Array.from({ length: policies }, () => ({ metadata, spec })),
    );
  };
  assert.deepEqual([isWith(4096, 1008, 65), isWith(4096, 1009, 65)], [true, false]);
  assert.deepEqual([isWith(65, 1008, 4096), isWith(65, 1009, 4096)], [true, false]);
  // Short selectors count for nothing, and pods with few labels are compared with all.
  assert.ok(isWith(4096, 1025, 64) && isWith(64, 1025, 4096));
});
