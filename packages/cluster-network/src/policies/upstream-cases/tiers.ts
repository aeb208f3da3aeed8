import type { Case, Expected } from "./case.ts";

const ns = (value: string) => ({ matchLabels: { ns: value } });
const of = (value: string) => ({ namespaces: ns(value) });
const tcp = (number: number) => ({ tcp: { destinationPort: { number } } });
const ranged = (protocol: string, start: number, end: number) => ({
  [protocol]: { destinationPort: { range: { start, end } } },
});
const cluster = (tier: "Admin" | "Baseline", priority: number, more: object) => ({
  tier,
  priority,
  subject: of("x"),
  ...more,
});
const toPod = (podSelector: object, namespaceSelector?: object) => ({
  pods: { podSelector, ...(namespaceSelector && { namespaceSelector }) },
});
const pod = (value: string) => ({ matchLabels: { pod: value } });
const open: Expected = {};
const both = (namespace: string): Expected => ({
  closed: [`x > ${namespace}`, `${namespace} > x`],
});

/** The same rules in both directions. */
function gress(
  ...rules: readonly {
    readonly action: string;
    readonly peers: readonly unknown[];
    readonly protocols?: readonly unknown[];
  }[]
) {
  return {
    ingress: rules.map(({ peers, ...rule }) => ({ ...rule, from: peers })),
    egress: rules.map(({ peers, ...rule }) => ({ ...rule, to: peers })),
  };
}

/** Rules whose order matters: the first one of a peer and port decides. */
const ordered = (tier: "Admin" | "Baseline"): Case => ({
  name: `of tier ${tier} have the first rule that matches decide, in each direction and protocol`,
  steps: [
    {
      tiers: {
        "ClusterNetworkPolicy p": cluster(
          tier,
          15,
          gress(
            { action: "Accept", peers: [of("x")] },
            { action: "Deny", peers: [of("x")] },
            { action: "Pass", peers: [of("x")] },
            {
              action: "Deny",
              peers: [of("y")],
              protocols: [
                tcp(80),
                { udp: { destinationPort: { number: 53 } } },
                { sctp: { destinationPort: { number: 9 } } },
              ],
            },
            { action: "Pass", peers: [of("y")], protocols: [tcp(80)] },
            { action: "Accept", peers: [of("z")], protocols: [tcp(81), ranged("udp", 53, 60)] },
            { action: "Deny", peers: [of("z")] },
          ),
        ),
      },
      expect: {
        "TCP 80": { closed: ["x > y", "y > x", "x > z", "z > x"] },
        "TCP 81": open,
        "UDP 53": both("y"),
        "UDP 60": open,
        "UDP 61": both("z"),
        "SCTP 9": { closed: ["x > y", "y > x", "x > z", "z > x"] },
        "SCTP 80": both("z"),
      },
    },
  ],
});

const oneWay = (direction: "ingress" | "egress"): Case => ({
  name: `with rules for ${direction} alone leave the other direction open`,
  steps: [
    {
      tiers: {
        "ClusterNetworkPolicy p": cluster("Admin", 8, {
          [direction]: gress({ action: "Deny", peers: [of("y")] })[direction],
        }),
      },
      expect: { "TCP 80": { closed: [direction === "ingress" ? "y > x" : "x > y"] } },
    },
  ],
});

const ranges = (tier: "Admin" | "Baseline"): Case => ({
  name: `of tier ${tier} allow ranges of ports with both their ends`,
  steps: [
    {
      tiers: {
        "ClusterNetworkPolicy p": cluster(
          tier,
          9,
          gress(
            {
              action: "Accept",
              peers: [of("y")],
              protocols: [ranged("tcp", 80, 8080), ranged("sctp", 9003, 9005)],
            },
            {
              action: "Deny",
              peers: [{ namespaces: { matchExpressions: [{ key: "ns", operator: "Exists" }] } }],
            },
          ),
        ),
      },
      expect: Object.fromEntries([
        ...["TCP 80", "TCP 8080", "SCTP 9003", "SCTP 9005"].map((on) => [
          on,
          { closed: ["x > x", "x > z", "z > x"] },
        ]),
        ...["TCP 79", "TCP 8081", "UDP 80", "SCTP 9006"].map((on) => [
          on,
          { closed: ["x > x", "x > y", "x > z", "y > x", "z > x"] },
        ]),
      ]),
    },
  ],
});

const withoutNamespaces = (tier: "Admin" | "Baseline"): Case => ({
  name: `of tier ${tier} choose pods of all namespaces if only pods are chosen`,
  steps: [
    {
      tiers: {
        "ClusterNetworkPolicy p": {
          tier,
          priority: 20,
          subject: toPod(pod("a")),
          ...gress(
            { action: "Accept", peers: [toPod(pod("b"), ns("y"))], protocols: [tcp(80)] },
            { action: "Deny", peers: [toPod(pod("b"))] },
          ),
        },
      },
      expect: {
        "TCP 80": {
          closed: pairs("b"),
          open: ["x/a", "y/a", "z/a"].flatMap((each) => [`${each} > y/b`, `y/b > ${each}`]),
        },
        "TCP 81": { closed: pairs("b") },
      },
    },
  ],
});

/** All a of all namespaces with all of one name, both ways. */
function pairs(name: string): readonly string[] {
  const homes = ["x", "y", "z"];
  return homes.flatMap((one) =>
    homes.flatMap((other) => [`${one}/a > ${other}/${name}`, `${other}/${name} > ${one}/a`]),
  );
}

const deny = { action: "Deny", peers: [of("y")] };
const pass = { action: "Pass", peers: [of("y")] };
const allowY = {
  podSelector: {},
  policyTypes: ["Ingress", "Egress"],
  ingress: [{ from: [{ namespaceSelector: ns("y") }] }],
  egress: [{ to: [{ namespaceSelector: ns("y") }] }],
};

const tiers: readonly Case[] = [
  {
    name: "pass on to NetworkPolicies, and from these to the baseline",
    steps: [
      {
        tiers: {
          "ClusterNetworkPolicy p": cluster("Admin", 10, gress(deny)),
          "ClusterNetworkPolicy default": cluster("Baseline", 10, gress(deny)),
        },
        policies: { "x/np": allowY },
        expect: { "TCP 80": { closed: ["* > x", "x > *"] } },
      },
      {
        tiers: { "ClusterNetworkPolicy p": cluster("Admin", 10, gress(pass)) },
        expect: { "TCP 80": { closed: ["* > x", "x > *"], open: ["x > y", "y > x"] } },
      },
      { policies: { "x/np": null }, expect: { "TCP 80": both("y") } },
      {
        tiers: { "ClusterNetworkPolicy default": cluster("Baseline", 10, gress(pass, deny)) },
        expect: { "TCP 80": open },
      },
    ],
  },
  {
    name: "are before NetworkPolicies: one that accepts opens what these close",
    steps: [
      {
        tiers: {
          "AdminNetworkPolicy p": {
            priority: 1,
            subject: of("x"),
            ...gress({ action: "Allow", peers: [of("z")] }),
          },
        },
        policies: { "x/np": allowY },
        expect: {
          "TCP 80": { closed: ["* > x", "x > *"], open: ["x > y", "y > x", "x > z", "z > x"] },
        },
      },
    ],
  },
  {
    name: "have the one of the least priority first, and follow its changes",
    steps: [
      {
        tiers: {
          "ClusterNetworkPolicy b": cluster("Admin", 50, gress(deny)),
          "ClusterNetworkPolicy a": cluster("Admin", 60, gress(pass)),
          "ClusterNetworkPolicy c": cluster(
            "Baseline",
            10,
            gress({ action: "Accept", peers: [of("y")] }),
          ),
        },
        expect: { "TCP 80": both("y") },
      },
      {
        tiers: { "ClusterNetworkPolicy a": cluster("Admin", 40, gress(pass)) },
        expect: { "TCP 80": open },
      },
    ],
  },
  ...(["Admin", "Baseline"] as const).map((tier): Case => ({
    name: `of tier ${tier} and one priority are each for their own subject`,
    steps: [
      {
        tiers: {
          "ClusterNetworkPolicy a": cluster(tier, 10, gress({ ...deny, protocols: [tcp(80)] })),
          "ClusterNetworkPolicy b": cluster(
            tier,
            10,
            gress({ action: "Deny", peers: [of("z")], protocols: [tcp(80)] }),
          ),
          "ClusterNetworkPolicy c": {
            ...cluster(tier, 10, gress({ ...deny, protocols: [tcp(81)] })),
            subject: of("z"),
          },
        },
        expect: {
          "TCP 80": { closed: ["x > y", "y > x", "x > z", "z > x"] },
          "TCP 81": { closed: ["z > y", "y > z"] },
          "TCP 82": open,
        },
      },
    ],
  })),
  ...(["Admin", "Baseline"] as const).map((tier): Case => ({
    name: `of tier ${tier} have nodes and networks as peers, pods of the cluster too`,
    steps: [
      {
        tiers: {
          "ClusterNetworkPolicy p": cluster(tier, 75, {
            egress: [
              {
                action: "Accept",
                to: [{ nodes: { matchLabels: { os: "linux" } } }],
                protocols: [ranged("tcp", 80, 81)],
              },
              { action: "Pass", to: [of("z")] },
              { action: "Accept", to: [{ networks: ["10.1.0.5/32"] }] },
              { action: "Deny", to: [{ nodes: {} }, { networks: ["0.0.0.0/0", "::/0"] }] },
            ],
          }),
        },
        expect: {
          "TCP 80": { closed: ["x > *"], open: ["x > z", "x > y/b", "x > node"] },
          "UDP 80": { closed: ["x > *"], open: ["x > z", "x > y/b"] },
        },
      },
    ],
  })),
  ...(["Admin", "Baseline"] as const).map((tier): Case => ({
    name: `of tier ${tier} have named ports, of whatever protocol the name is`,
    steps: [
      {
        tiers: {
          "ClusterNetworkPolicy p": cluster(
            tier,
            5,
            gress(
              {
                action: "Accept",
                peers: [of("y")],
                protocols: [
                  { destinationNamedPort: "p80-tcp" },
                  { destinationNamedPort: "p81-udp" },
                ],
              },
              deny,
            ),
          ),
        },
        expect: { "TCP 80": open, "UDP 81": open, "TCP 81": both("y"), "UDP 80": both("y") },
      },
    ],
  })),
  {
    name: "of v1alpha1 have ports by number, range and name",
    steps: [
      {
        tiers: {
          "BaselineAdminNetworkPolicy default": {
            subject: of("x"),
            ingress: [
              {
                action: "Allow",
                from: [of("y")],
                ports: [
                  { portNumber: { protocol: "TCP", port: 80 } },
                  { portRange: { protocol: "UDP", start: 53, end: 60 } },
                  { namedPort: "p81-sctp" },
                ],
              },
              { action: "Deny", from: [of("y")] },
            ],
          },
        },
        expect: {
          "TCP 80": open,
          "UDP 60": open,
          "SCTP 81": open,
          "UDP 80": { closed: ["y > x"] },
          "TCP 81": { closed: ["y > x"] },
        },
      },
    ],
  },
  {
    name: "without rules do nothing",
    steps: [
      { tiers: { "ClusterNetworkPolicy p": cluster("Admin", 0, {}) }, expect: { "TCP 80": open } },
    ],
  },
];

/** The conformance tests of the Network Policy API, and what the documentation of its fields adds. */
export const tierCases: readonly Case[] = [
  ordered("Admin"),
  ordered("Baseline"),
  oneWay("ingress"),
  oneWay("egress"),
  ranges("Admin"),
  ranges("Baseline"),
  withoutNamespaces("Admin"),
  withoutNamespaces("Baseline"),
  ...tiers,
];
