import type { Labels } from "@kip/k8s-client";
import type {
  LabelSelector,
  NetworkPolicy,
  NetworkPolicyPeer,
  NetworkPolicyPort,
} from "@kip/k8s-types/network";

/**
 * Limits for the policies of one direction of a pod. Any user may write policies. Kip computes those of all cells in one thread, and compares
 * each selector with each pod of the cluster. A direction that exceeds a limit is closed, and its rules are not computed.
 */
const most = {
  /** Rules, with their peers, exceptions and ports. */
  entries: 16_384,
  /** Peers that are selectors. */
  selectors: 512,
  /** Labels, expressions and values of those selectors. */
  terms: 4096,
  /** Selectors of egress rules, counted once for each named port. Each has a group of numbers, and a group of addresses for each number. */
  namedPorts: 64,
} as const;

/** A `podSelector` with more terms than this is long. When its policy changes, all pods of the namespace are checked. */
export const maxShortSubjectTerms = 64;

/** Maximum number of terms of long selectors that a pod with more than {@link maxShortSubjectTerms} labels is compared with. This takes about 4 ms. */
const maxComparedTerms = 65_536;

/** The pods that a policy applies to. */
interface Subject {
  readonly selector: LabelSelector;
  readonly terms: number;
}

const everyPod: LabelSelector = {};
const subjects = new WeakMap<NetworkPolicy, Subject>();

/**
 * The selector of the pods that a policy applies to, in its namespace. It is compared with each of them. So a selector with more labels,
 * expressions and values than the limit is replaced by one for all pods, and {@link isAffordable} is false for the policy.
 */
export function subjectOf(policy: NetworkPolicy): LabelSelector {
  return measuredSubjectOf(policy).selector;
}

function measuredSubjectOf(policy: NetworkPolicy): Subject {
  const known = subjects.get(policy);
  if (known) return known;
  const selector = policy.spec?.podSelector ?? everyPod;
  const terms = termsOf(selector);
  const subject = terms > most.terms ? { selector: everyPod, terms: 0 } : { selector, terms };
  subjects.set(policy, subject);
  return subject;
}

/** Whether the `podSelector` of a policy is long. */
export function hasLongSubject(policy: NetworkPolicy): boolean {
  return measuredSubjectOf(policy).terms > maxShortSubjectTerms;
}

/**
 * Whether a pod can be compared with the long selectors of all policies of its namespace in one step. A pod with few labels always can.
 * The result depends only on its labels and those policies.
 */
export function isComparable(labels: Labels, policies: readonly NetworkPolicy[]): boolean {
  const long = policies.filter(hasLongSubject);
  const count = long.length > 0 ? Object.keys(labels).length : 0;
  if (count <= maxShortSubjectTerms) return true;
  const terms = long.map((policy) => Math.min(count, measuredSubjectOf(policy).terms));
  return terms.reduce((sum, each) => sum + each, 0) <= maxComparedTerms;
}

type Direction = "Ingress" | "Egress";

type Cost = Readonly<Record<keyof typeof most, number>>;

/** Caches costs, so that a policy is counted once, and not for each of its pods. */
const known: Readonly<Record<Direction, WeakMap<NetworkPolicy, Cost>>> = {
  Ingress: new WeakMap(),
  Egress: new WeakMap(),
};

/** Whether the rules of one direction of all policies of a pod are few enough to be computed. */
export function isAffordable(policies: readonly NetworkPolicy[], direction: Direction): boolean {
  const costs = policies.map((policy) => {
    const cost = known[direction].get(policy) ?? costOf(policy, direction);
    known[direction].set(policy, cost);
    return cost;
  });
  const isWithin = (what: keyof Cost): boolean =>
    costs.reduce((sum, cost) => sum + cost[what], 0) <= most[what];
  return (
    isWithin("entries") && isWithin("selectors") && isWithin("terms") && isWithin("namedPorts")
  );
}

function costOf(policy: NetworkPolicy, direction: Direction): Cost {
  const hasSubject = subjectOf(policy) === (policy.spec?.podSelector ?? everyPod);
  const terms = hasSubject ? 0 : Number.POSITIVE_INFINITY;
  const cost = { entries: 0, selectors: 0, terms, namedPorts: 0 };
  for (const { peers, ports } of rulesOf(policy, direction)) {
    const blocks = peers.filter(({ ipBlock }) => ipBlock);
    const exceptions = blocks.reduce((sum, { ipBlock }) => sum + (ipBlock?.except?.length ?? 0), 0);
    cost.entries += 1 + peers.length + exceptions + ports.length;
    cost.selectors += peers.length - blocks.length;
    for (const { namespaceSelector, podSelector } of peers)
      cost.terms += termsOf(namespaceSelector) + termsOf(podSelector);
    if (direction === "Ingress") continue;
    const named = ports.filter(({ port }) => typeof port === "string").length;
    cost.namedPorts += named * (peers.length === 0 ? 1 : peers.length - blocks.length);
  }
  return cost;
}

/** Number of labels, expressions and values of a selector. */
export function termsOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector = {}): number {
  const values = matchExpressions.reduce(
    (sum, expression) => sum + (expression.values?.length ?? 0),
    0,
  );
  return Object.keys(matchLabels).length + matchExpressions.length + values;
}

function rulesOf(
  { spec }: NetworkPolicy,
  direction: Direction,
): readonly {
  readonly peers: readonly NetworkPolicyPeer[];
  readonly ports: readonly NetworkPolicyPort[];
}[] {
  if (direction === "Ingress")
    return (spec?.ingress ?? []).map(({ from = [], ports = [] }) => ({ peers: from, ports }));
  return (spec?.egress ?? []).map(({ to = [], ports = [] }) => ({ peers: to, ports }));
}
