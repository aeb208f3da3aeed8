import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readTierPolicy, type TierKind, type TierPolicy } from "./tier-policy.ts";

const subject = { namespaces: {} };
const from = [{ namespaces: { matchLabels: { team: "a" } } }];

/** The policy as it was read, and what could not be. */
function read(kind: TierKind, spec: unknown, name = "default") {
  const problems: string[] = [];
  const policy = readTierPolicy(kind, { metadata: { name }, spec }, (problem) =>
    problems.push(`${problem.policy}: ${problem.problem}`),
  );
  return { policy, problems };
}

/** The actions of a policy's rules; `closed` for one that denies everything. */
function actions(policy: TierPolicy | undefined, direction: "ingress" | "egress" = "ingress") {
  return policy?.[direction].map(({ action, match }) => (match ? action : `closed ${action}`));
}

describe("readTierPolicy()", () => {
  it("reads an AdminNetworkPolicy", () => {
    const ports = [
      { portNumber: { protocol: "TCP", port: 80 } },
      { portRange: { start: 90, end: 95 } },
      { namedPort: "http" },
    ];
    const { policy, problems } = read("AdminNetworkPolicy", {
      priority: 7,
      subject,
      ingress: [{ action: "Allow", from, ports }],
      egress: [{ action: "Pass", to: [{ networks: ["10.0.0.0/8"] }, { nodes: {} }] }],
    });
    assert.deepEqual(problems, []);
    assert.equal(policy?.priority, 7);
    assert.deepEqual(policy.ingress[0]?.match?.ports, [
      { protocol: "TCP", port: 80 },
      { protocol: "TCP", port: 90, endPort: 95 },
      { name: "http" },
    ]);
    assert.deepEqual(policy.egress[0]?.match?.networks, ["10.0.0.0/8"]);
  });

  it("reads a ClusterNetworkPolicy by its tier", () => {
    const protocols = [
      { tcp: { destinationPort: { number: 80 } } },
      { udp: { destinationPort: { range: { start: 90, end: 95 } } } },
      { sctp: {} },
      { destinationNamedPort: "http" },
    ];
    const ingress = [{ action: "Accept", from, protocols }];
    const spec = { tier: "Baseline", priority: 7, subject, ingress };
    const { policy, problems } = read("ClusterNetworkPolicy", spec, "a");
    assert.deepEqual(problems, []);
    assert.equal(policy?.tier, "baseline");
    assert.deepEqual(policy.ingress[0]?.match?.ports, [
      { protocol: "TCP", port: 80 },
      { protocol: "UDP", port: 90, endPort: 95 },
      { protocol: "SCTP" },
      { name: "http" },
    ]);
  });

  it("ignores a BaselineAdminNetworkPolicy that is not the default one, and says so", () => {
    const { policy, problems } = read("BaselineAdminNetworkPolicy", { subject }, "mine");
    assert.equal(policy, undefined);
    assert.match(problems[0] ?? "", /BaselineAdminNetworkPolicy mine: .*default/);
  });

  it("closes rules that it cannot read: one that allows matches nothing, others deny everything", () => {
    const bad = [
      { from: [{ somethingNew: {} }] },
      { from: [{ namespaces: {}, pods: {} }] },
      { from: [] },
      {},
      { from, ports: [{ portNumber: { protocol: "TCP", port: 70_000 } }] },
      { from, ports: [{ portNumber: { protocol: "ICMP", port: 7 } }] },
      { from, ports: [{ portRange: { start: 90, end: 80 } }] },
      { from: [{ namespaces: { matchExpressions: [{ key: "a", operator: "Like" }] } }] },
      { from: [{ namespaces: { matchExpressions: [{ key: "a", operator: "In" }] } }] },
      { from: [{ pods: { podSelector: {} } }] },
      { from: "all" },
      // Shapes of earlier versions of v1alpha1, which restrict more than is read here.
      { from: [{ namespaces: { sameLabels: ["team"] } }] },
      { from: [{ namespaces: { namespaceSelector: { matchLabels: { team: "a" } } } }] },
      { from: [{ pods: { namespaceSelector: {}, podSelector: {}, notSameLabels: ["team"] } }] },
      { from, ports: [{ portNumber: { protocol: "TCP", port: 80, endPort: 90 } }] },
      { from, protocols: [{ tcp: {} }] },
    ];
    for (const rule of bad)
      for (const [action, expected] of [
        ["Allow", []],
        ["Deny", ["closed deny"]],
        ["Pass", ["closed deny"]],
      ] as const) {
        const spec = { priority: 1, subject, ingress: [{ action, ...rule }] };
        const { policy, problems } = read("AdminNetworkPolicy", spec, "a");
        assert.deepEqual(actions(policy), expected, JSON.stringify(rule));
        assert.match(problems.join(), /AdminNetworkPolicy a: .*spec\.ingress\[0\]/);
      }
  });

  it("reads pods of all namespaces in a ClusterNetworkPolicy alone: v1alpha1 does not know them", () => {
    const pods = { podSelector: { matchLabels: { app: "a" } } };
    const spec = {
      tier: "Admin",
      priority: 1,
      subject: { pods },
      ingress: [{ action: "Deny", from: [{ pods }] }],
    };
    const { policy, problems } = read("ClusterNetworkPolicy", spec);
    assert.deepEqual(problems, []);
    const { matchLabels } = pods.podSelector;
    const chosen = { namespaceSelector: {}, podSelector: { matchLabels, matchExpressions: [] } };
    assert.deepEqual(policy?.subject, chosen);
    assert.deepEqual(policy.ingress[0]?.match?.pods, [chosen]);
    const alpha = read("AdminNetworkPolicy", spec);
    assert.deepEqual(actions(alpha.policy), ["closed deny"]);
    assert.match(alpha.problems.join(), /spec\.subject\.pods\.namespaceSelector/);
  });

  it("closes peers and ports that do not fit together, and names of domains", () => {
    for (const rule of [
      { to: [{ domainNames: ["example.com"] }] },
      { to: [{ networks: ["10.0.0.0"] }] },
      { to: [{ networks: [] }] },
      { to: [{ nodes: {} }], ports: [{ namedPort: "http" }] },
    ]) {
      const spec = { priority: 1, subject, egress: [{ action: "Deny", ...rule }] };
      assert.deepEqual(actions(read("AdminNetworkPolicy", spec).policy, "egress"), ["closed deny"]);
    }
  });

  it("closes a rule whose action it does not know", () => {
    const spec = (action: unknown) => ({ priority: 1, subject, ingress: [{ action, from }] });
    for (const [kind, action] of [
      ["AdminNetworkPolicy", "Accept"],
      ["AdminNetworkPolicy", undefined],
      ["BaselineAdminNetworkPolicy", "Pass"],
      ["ClusterNetworkPolicy", "Allow"],
    ] as const)
      assert.deepEqual(actions(read(kind, { tier: "Admin", ...spec(action) }).policy), [
        "closed deny",
      ]);
  });

  it("allows nothing for every pod without a subject, and nothing for its own pods without a priority or tier", () => {
    const ingress = [
      { action: "Allow", from },
      { action: "Pass", from },
      { action: "Deny", from },
    ];
    const own = { namespaces: { matchLabels: { a: "b" } } };
    const ofOwn = { matchLabels: { a: "b" }, matchExpressions: [] };
    for (const [spec, namespaces, priority] of [
      [{ priority: 1 }, {}, 1],
      [{ priority: 1, subject: {} }, {}, 1],
      [{ subject: own }, ofOwn, 0],
      [{ subject: own, priority: 5000 }, ofOwn, 0],
    ] as const) {
      const { policy, problems } = read("AdminNetworkPolicy", { ...spec, ingress });
      assert.deepEqual(actions(policy), ["deny", "deny"]);
      assert.deepEqual(policy?.subject.namespaceSelector, namespaces);
      assert.equal(policy.priority, priority);
      assert.notEqual(problems.length, 0);
    }
    const accepting = ingress.with(0, { action: "Accept", from });
    const spec = { subject: own, priority: 7, tier: "Other", ingress: accepting };
    const { policy } = read("ClusterNetworkPolicy", spec);
    assert.deepEqual(actions(policy), ["deny", "deny"]);
    assert.deepEqual([policy?.tier, policy?.subject.namespaceSelector], ["admin", ofOwn]);
  });
});
