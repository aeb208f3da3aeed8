import type { NetworkPolicy } from "@kip/k8s-types/network";
import type { Case, Expected } from "./case.ts";

type Spec = NonNullable<NetworkPolicy["spec"]>;
type Selector = NonNullable<Spec["podSelector"]>;
type Ingress = NonNullable<Spec["ingress"]>;
type Egress = NonNullable<Spec["egress"]>;

const pod = (value: string): Selector => ({ matchLabels: { pod: value } });
const ns = (value: string): Selector => ({ matchLabels: { ns: value } });
const is = (key: string, operator: "In" | "NotIn", ...values: readonly string[]): Selector => ({
  matchExpressions: [{ key, operator, values }],
});
const inward = (podSelector: Selector, ...ingress: Ingress): Spec => ({
  podSelector,
  policyTypes: ["Ingress"],
  ingress,
});
const outward = (podSelector: Selector, ...egress: Egress): Spec => ({
  podSelector,
  policyTypes: ["Egress"],
  egress,
});
/** One policy p in x, and what it means for TCP port 80 or each port that is named. */
const one = (name: string, spec: Spec, expect: Expected | Record<string, Expected>): Case => ({
  name,
  steps: [
    {
      policies: { "x/p": spec },
      expect: "closed" in expect ? { "TCP 80": expect } : (expect as Record<string, Expected>),
    },
  ],
});
const a = pod("a");
const open: Expected = {};
/** Nothing reaches x/a, but what is given. */
const onlyFrom = (...from: readonly string[]): Expected => ({
  closed: ["* > x/a"],
  open: from.map((each) => `${each} > x/a`),
});
/** x/a reaches nothing, but what is given. */
const onlyTo = (...to: readonly string[]): Expected => ({
  closed: ["x/a > *"],
  open: to.map((each) => `x/a > ${each}`),
});

const peers: readonly Case[] = [
  one("without rules close all pods of their namespace inwards", inward({}), {
    closed: ["* > x"],
  }),
  one("without rules close all pods of their namespace outwards", outward({}), {
    closed: ["x > *"],
  }),
  one("without rules close a pod outwards", outward(a), onlyTo()),
  one(
    "choose pods of their own namespace",
    inward(a, { from: [{ podSelector: pod("b") }] }),
    onlyFrom("x/b"),
  ),
  one("choose all pods of their own namespace", inward({}, { from: [{ podSelector: {} }] }), {
    closed: ["* > x"],
    open: ["x > x"],
  }),
  one(
    "choose pods of all namespaces, and nothing else",
    inward(a, { from: [{ namespaceSelector: {} }] }),
    onlyFrom("x", "y", "z"),
  ),
  one("choose a namespace", inward(a, { from: [{ namespaceSelector: ns("y") }] }), onlyFrom("y")),
  one(
    "choose a pod by an expression",
    inward(a, { from: [{ podSelector: is("pod", "In", "b") }] }),
    onlyFrom("x/b"),
  ),
  one(
    "choose a namespace by an expression",
    inward(a, { from: [{ namespaceSelector: is("ns", "In", "y") }] }),
    onlyFrom("y"),
  ),
  one(
    "choose pods, or namespaces",
    inward(a, { from: [{ namespaceSelector: is("ns", "NotIn", "x") }, { podSelector: pod("b") }] }),
    onlyFrom("y", "z", "x/b"),
  ),
  one(
    "choose pods in namespaces",
    inward(a, { from: [{ namespaceSelector: is("ns", "NotIn", "x"), podSelector: pod("b") }] }),
    onlyFrom("y/b", "z/b"),
  ),
  one(
    "choose several pods in several namespaces",
    inward(a, {
      from: [{ namespaceSelector: is("ns", "NotIn", "x"), podSelector: is("pod", "In", "b", "c") }],
    }),
    onlyFrom("y/b", "y/c", "z/b", "z/c"),
  ),
  one(
    "choose by any of several selectors",
    inward(a, { from: [{ podSelector: pod("b") }, { podSelector: pod("c") }] }),
    onlyFrom("x/b", "x/c"),
  ),
  one(
    "choose things that have no such label by NotIn and DoesNotExist",
    inward(a, {
      from: [
        {
          podSelector: {
            matchExpressions: [
              { key: "no", operator: "NotIn", values: ["1"] },
              { key: "no", operator: "DoesNotExist" },
              { key: "pod", operator: "Exists" },
            ],
            matchLabels: { pod: "b" },
          },
        },
      ],
    }),
    onlyFrom("x/b"),
  ),
  one(
    "choose a namespace by its name",
    inward(a, {
      from: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "y" } } }],
    }),
    onlyFrom("y"),
  ),
  one(
    "choose all namespaces but one by its name",
    outward(a, { to: [{ namespaceSelector: is("kubernetes.io/metadata.name", "NotIn", "y") }] }),
    onlyTo("x", "z"),
  ),
  one(
    "choose a pod of another namespace outwards",
    outward(a, { to: [{ namespaceSelector: ns("y"), podSelector: a }] }),
    onlyTo("y/a"),
  ),
  one(
    "choose a pod by its address",
    outward(a, { to: [{ ipBlock: { cidr: "10.1.0.5/32" } }] }),
    onlyTo("y/b"),
  ),
  one(
    "leave an address out of a block",
    outward(a, { to: [{ ipBlock: { cidr: "10.1.0.0/24", except: ["10.1.0.2/32"] } }] }),
    { closed: ["x/a > x/b", "x/a > node", "x/a > world"] },
  ),
  one(
    "have an exception of one block leave others as they are",
    outward(a, {
      to: [
        { ipBlock: { cidr: "0.0.0.0/0", except: ["10.1.0.0/24"] } },
        { ipBlock: { cidr: "10.1.0.2/32" } },
        { podSelector: pod("c") },
      ],
    }),
    onlyTo("x/b", "x/c", "node", "world"),
  ),
];

const ports: readonly Case[] = [
  one(
    "allow one port from a namespace",
    inward(a, { from: [{ namespaceSelector: ns("y") }], ports: [{ port: 81 }] }),
    { "TCP 81": onlyFrom("y"), "TCP 80": onlyFrom(), "UDP 81": onlyFrom() },
  ),
  one("allow everything by one empty rule", inward({}, {}), { "TCP 80": open, "UDP 81": open }),
  one("allow one named port", inward({}, { ports: [{ port: "p81-tcp" }] }), {
    "TCP 81": open,
    "TCP 80": { closed: ["* > x"] },
    "UDP 81": { closed: ["* > x"] },
  }),
  one(
    "allow one named port from a namespace",
    inward(a, {
      from: [{ namespaceSelector: ns("y") }],
      ports: [{ port: "p80-tcp", protocol: "TCP" }],
    }),
    { "TCP 80": onlyFrom("y"), "TCP 81": onlyFrom() },
  ),
  one(
    "allow one named port outwards, of pods alone",
    outward({}, { ports: [{ port: "p80-tcp" }] }),
    { "TCP 80": { closed: ["x > node", "x > world"] }, "TCP 81": { closed: ["x > *"] } },
  ),
  one(
    "have no named ports for blocks of addresses, of pods neither",
    outward(a, {
      to: [{ ipBlock: { cidr: "10.1.0.0/24" } }, { podSelector: pod("b") }],
      ports: [{ port: "p80-tcp" }],
    }),
    onlyTo("x/b"),
  ),
  one(
    "do not allow a named port of another protocol",
    inward(a, { ports: [{ port: "p80-udp" }] }),
    { "TCP 80": onlyFrom(), "UDP 80": onlyFrom() },
  ),
  one(
    "allow a named port of UDP and one of SCTP",
    inward(a, {
      ports: [
        { port: "p80-udp", protocol: "UDP" },
        { port: "p81-sctp", protocol: "SCTP" },
      ],
    }),
    { "UDP 80": open, "SCTP 81": open, "SCTP 80": onlyFrom(), "TCP 80": onlyFrom() },
  ),
  one("allow all ports of a protocol", inward(a, { ports: [{ protocol: "TCP" }] }), {
    "TCP 80": open,
    "UDP 80": onlyFrom(),
  }),
  one(
    "allow a range with both its ends",
    inward(a, {
      ports: [
        { port: 70, endPort: 80 },
        { port: 72, endPort: 75 },
        { port: 90, endPort: 90 },
      ],
    }),
    {
      "TCP 70": open,
      "TCP 80": open,
      "TCP 90": open,
      "TCP 69": onlyFrom(),
      "TCP 81": onlyFrom(),
      "TCP 91": onlyFrom(),
      "UDP 80": onlyFrom(),
    },
  ),
  one("do not take SCTP for TCP", inward(a, { ports: [{ port: 81, protocol: "SCTP" }] }), {
    "TCP 81": onlyFrom(),
    "SCTP 81": open,
    "TCP 80": onlyFrom(),
  }),
  one("do not take UDP for TCP", inward(a, { ports: [{ port: 81, protocol: "UDP" }] }), {
    "TCP 81": onlyFrom(),
    "UDP 81": open,
  }),
];

const directions: readonly Case[] = [
  one(
    "restrict both directions at once",
    {
      ...inward(a, { from: [{ podSelector: pod("b") }] }),
      egress: [{ ports: [{ port: 80 }] }],
      policyTypes: ["Egress", "Ingress"],
    },
    {
      "TCP 80": onlyFrom("x/b"),
      "TCP 81": { closed: ["* > x/a", "x/a > *"], open: ["x/b > x/a"] },
    },
  ),
  one(
    "restrict both directions without any rule",
    { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
    { closed: ["* > x", "x > *"] },
  ),
  one("restrict what comes in if they name no direction", { podSelector: a }, onlyFrom()),
  one(
    "do not restrict what goes out by an empty list of rules",
    { podSelector: a, egress: [] },
    onlyFrom(),
  ),
  one(
    "restrict both directions if they have rules outwards",
    { podSelector: a, egress: [{ to: [{ podSelector: pod("c") }] }] },
    { closed: ["* > x/a", "x/a > *"], open: ["x/a > x/c"] },
  ),
  one(
    "ignore rules of a direction that they do not name",
    { ...outward(a, {}), ingress: [{ from: [{ podSelector: pod("b") }] }] },
    { "TCP 80": open },
  ),
];

const several: readonly Case[] = [
  {
    name: "of one pod allow what any of them allows",
    steps: [
      {
        policies: {
          "x/one": inward(a, { from: [{ namespaceSelector: ns("y") }], ports: [{ port: 81 }] }),
        },
        expect: { "TCP 81": onlyFrom("y"), "TCP 80": onlyFrom() },
      },
      {
        policies: {
          "x/two": inward(a, { from: [{ namespaceSelector: ns("y") }], ports: [{ port: 80 }] }),
        },
        expect: { "TCP 81": onlyFrom("y"), "TCP 80": onlyFrom("y") },
      },
      { policies: { "x/all": inward({}, {}) }, expect: { "TCP 80": open, "UDP 9": open } },
    ],
  },
  {
    name: "open one pod of a namespace that is closed, to pods alone",
    steps: [
      {
        policies: {
          "x/deny": inward({}),
          "x/open": inward(a, { from: [{ namespaceSelector: {}, podSelector: {} }] }),
        },
        expect: { "TCP 80": { closed: ["* > x"], open: ["x > x/a", "y > x/a", "z > x/a"] } },
      },
    ],
  },
  {
    name: "allow outwards what any of them allows",
    steps: [
      {
        policies: { "x/one": outward({}, { ports: [{ port: 80 }] }) },
        expect: { "TCP 81": { closed: ["x > *"] }, "TCP 80": open },
      },
      { policies: { "x/all": outward({}, {}) }, expect: { "TCP 81": open } },
    ],
  },
  {
    name: "allow an address that is an exception of another one's block",
    steps: [
      {
        policies: {
          "x/one": outward(a, {
            to: [{ ipBlock: { cidr: "10.1.0.0/24", except: ["10.1.0.2/32"] } }],
          }),
          "x/two": outward(a, { to: [{ ipBlock: { cidr: "10.1.0.2/32" } }] }),
        },
        expect: { "TCP 80": onlyTo("x", "y", "z") },
      },
    ],
  },
  {
    name: "of client and server both decide",
    steps: [
      {
        policies: {
          "x/out": outward(a, { to: [{ namespaceSelector: ns("y"), podSelector: a }] }),
          "y/in-a": inward(a, { from: [{ namespaceSelector: ns("x"), podSelector: a }] }),
          "y/in-b": inward(pod("b"), { from: [{ namespaceSelector: ns("x"), podSelector: a }] }),
        },
        expect: { "TCP 80": { closed: ["x/a > *", "* > y/a", "* > y/b"], open: ["x/a > y/a"] } },
      },
    ],
  },
  {
    name: "let one direction be closed and the other open",
    steps: [
      { policies: { "x/out": outward(a, {}) }, expect: { "TCP 80": open } },
      { policies: { "x/in": inward(a) }, expect: { "TCP 80": onlyFrom() } },
    ],
  },
  {
    name: "follow changes of the policy, and end with it",
    steps: [
      { policies: { "x/p": inward({}, {}) }, expect: { "TCP 81": open } },
      {
        policies: { "x/p": { ...inward({}), policyTypes: ["Ingress", "Egress"] } },
        expect: { "TCP 81": { closed: ["* > x", "x > *"] } },
      },
      { policies: { "x/p": null }, expect: { "TCP 81": open } },
    ],
  },
  {
    name: "follow the labels of namespaces, of peers and of their own pods",
    steps: [
      {
        policies: {
          "x/p": inward(
            { matchLabels: { target: "yes" } },
            {
              from: [
                { namespaceSelector: { matchLabels: { team: "t" } } },
                { podSelector: { matchLabels: { new: "yes" } } },
              ],
            },
          ),
        },
        expect: { "TCP 80": open },
      },
      { labels: { "x/a": { target: "yes" } }, expect: { "TCP 80": onlyFrom() } },
      { labels: { y: { team: "t" } }, expect: { "TCP 80": onlyFrom("y") } },
      { labels: { "x/b": { new: "yes" } }, expect: { "TCP 80": onlyFrom("y", "x/b") } },
      { labels: { y: {}, "x/a": {} }, expect: { "TCP 80": open } },
    ],
  },
];

/** The Kubernetes end-to-end tests of NetworkPolicies, and what the documentation of the fields adds. */
export const networkPolicyCases: readonly Case[] = [...peers, ...ports, ...directions, ...several];
