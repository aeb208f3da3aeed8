import { defined } from "@kip/base";
import type { NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort } from "@kip/k8s-types/network";
import {
  contains,
  limits,
  type PolicyBlock,
  type PolicyPort,
  type PolicyRule,
  type PolicyView,
  type TierView,
} from "@kip/network-view";
import { protocolOf } from "../services/service-view-of.ts";
import type { GroupSelector, PortName } from "./group-selector.ts";
import type { PodFacts } from "./pod-facts.ts";
import { hasLongSubject, isAffordable } from "./policy-cost.ts";
import { withNumbers, type NamedRules } from "./named-rules.ts";
import { keyOf, ownNumbers } from "./pod-ports.ts";
import { maxNumbers, type PortNumbers } from "./port-numbers.ts";
import type { TierPolicy } from "./tier-policy.ts";
import { tierRules, type TierRules } from "./tier-rules.ts";
import { writtenCidr } from "../written-address.ts";

/** The queries on groups of addresses that rules need. */
export interface GroupNames {
  /** Name of the group of pods that a selector matches. */
  name(selector: GroupSelector): string;
  /**
   * Numbers that pods of a group have for a named port.
   *
   * @param most the maximum number of results, if not all can have rules. The most common numbers come first
   */
  portNumbers(selector: GroupSelector, port: PortName, most?: number): PortNumbers;
}

/** Where the rules of one direction come from. */
export interface RuleOrigins {
  /** Names of the policies that restrict the direction. */
  readonly restricting: readonly string[];
  /** Names of policies without rules, because the policies of the namespace match too many addresses. See {@link PolicyBudget}. */
  readonly refused: readonly string[];
  /** Whether the policies exceed the limits of a pod. Then none of them has rules. */
  readonly isOverLimits: boolean;
  /** For each rule of the view, the name of its policy. */
  readonly ofRules: readonly string[];
  /** For each rule of the administrators' tiers, kind and name of its policy. */
  readonly admin: readonly string[];
  readonly baseline: readonly string[];
}

/** The combined policy of one pod, and the policies that it comes from. */
export interface PodPolicy {
  readonly view: PolicyView;
  readonly ingress: RuleOrigins;
  readonly egress: RuleOrigins;
}

/**
 * Computes what may reach a pod, and what the pod may reach. If NetworkPolicies restrict a direction, only what any of them allows passes.
 * If none does, everything passes. The administrators' tiers are evaluated before (admin) and after (baseline).
 *
 * @param policies NetworkPolicies that select the pod
 * @param tiers policies of administrators that select the pod
 * @param hasTooManyLabels see {@link PolicyChoice}. If so, directions that are restricted by a policy with a long selector are closed
 * @param isRefused whether a NetworkPolicy has no rules, see {@link PolicyBudget}
 */
export function podPolicy(
  pod: PodFacts,
  {
    policies,
    tiers,
    hasTooManyLabels,
    isRefused,
  }: {
    readonly policies: readonly NetworkPolicy[];
    readonly tiers: readonly TierPolicy[];
    readonly hasTooManyLabels: boolean;
    readonly isRefused: (policy: NetworkPolicy) => boolean;
  },
  groups: GroupNames,
): PodPolicy {
  const isOver = (direction: Direction): boolean =>
    isOverLimits({ pod, policies, hasTooManyLabels }, direction);
  const ingress = united(policies, "Ingress", {
    isOverLimits: isOver("Ingress"),
    isRefused,
    rulesOf: (policy) => ingressRules(policy, pod, groups),
    groups,
  });
  const egress = united(policies, "Egress", {
    isOverLimits: isOver("Egress"),
    isRefused,
    rulesOf: (policy) => egressRules(policy, groups),
    groups,
  });
  const admin = tierOf(
    pod,
    tiers.filter(({ tier }) => tier === "admin"),
    groups,
  );
  const baseline = tierOf(
    pod,
    tiers.filter(({ tier }) => tier === "baseline"),
    groups,
  );
  const origins = (direction: "ingress" | "egress") => ({
    admin: admin[direction].titles,
    baseline: baseline[direction].titles,
  });
  return {
    view: defined({
      ingress: ingress.rules,
      egress: egress.rules,
      admin: viewOfTier(admin),
      baseline: viewOfTier(baseline),
    }),
    ingress: { ...ingress.origins, ...origins("ingress") },
    egress: { ...egress.origins, ...origins("egress") },
  };
}

type Direction = "Ingress" | "Egress";

/** A pod and the NetworkPolicies that select it. */
interface Selected {
  readonly pod: PodFacts;
  readonly policies: readonly NetworkPolicy[];
  readonly hasTooManyLabels: boolean;
}

/** The NetworkPolicies that a pod's rules are made from. Without policies that only restrict directions that exceed the limits of a pod. */
export function policiesWithRules(selected: Selected): readonly NetworkPolicy[] {
  const within = (["Ingress", "Egress"] as const).filter((each) => !isOverLimits(selected, each));
  if (within.length === 2) return selected.policies;
  return selected.policies.filter((policy) => within.some((each) => restricts(policy, each)));
}

/** Whether a direction of a pod is closed because its NetworkPolicies are too large in total. */
function isOverLimits(
  { pod, policies, hasTooManyLabels }: Selected,
  direction: Direction,
): boolean {
  const restricting = policies.filter((policy) => restricts(policy, direction));
  if (hasTooManyLabels && restricting.some(hasLongSubject)) return true;
  if (!isAffordable(restricting, direction)) return true;
  return direction === "Ingress" && hasTooManyOwnPorts(pod, restricting);
}

interface Tier {
  readonly ingress: TierRules;
  readonly egress: TierRules;
}

function tierOf(pod: PodFacts, policies: readonly TierPolicy[], groups: GroupNames): Tier {
  return {
    ingress: tierRules(pod, policies, { direction: "ingress", groups }),
    egress: tierRules(pod, policies, { direction: "egress", groups }),
  };
}

/** Undefined without any rule. */
function viewOfTier({ ingress, egress }: Tier): TierView | undefined {
  if (ingress.rules.length + egress.rules.length === 0) return undefined;
  return defined({ ingress: unlessEmpty(ingress.rules), egress: unlessEmpty(egress.rules) });
}

/** The rules of all policies that restrict a direction; undefined if none does. */
function united(
  policies: readonly NetworkPolicy[],
  direction: Direction,
  {
    isOverLimits: isOver,
    isRefused,
    rulesOf,
    groups,
  }: {
    readonly isOverLimits: boolean;
    readonly isRefused: (policy: NetworkPolicy) => boolean;
    readonly rulesOf: (policy: NetworkPolicy) => readonly (PolicyRule | NamedRules<PolicyRule>)[];
    readonly groups: GroupNames;
  },
): {
  readonly rules: readonly PolicyRule[] | undefined;
  readonly origins: Omit<RuleOrigins, "admin" | "baseline">;
} {
  const restricting = policies.filter((policy) => restricts(policy, direction));
  const refused = restricting.filter(isRefused);
  const computed = isOver ? [] : restricting.filter((policy) => !isRefused(policy));
  const drafts = computed.flatMap((policy) =>
    rulesOf(policy).map((rule) => ({ rule, title: policy.metadata.name })),
  );
  const found = withNumbers(drafts, groups);
  return {
    rules: restricting.length === 0 ? undefined : found.map(({ rule }) => rule),
    origins: {
      restricting: restricting.map(({ metadata }) => metadata.name),
      refused: refused.map(({ metadata }) => metadata.name),
      isOverLimits: isOver,
      ofRules: found.map(({ title }) => title),
    },
  };
}

/** Whether a policy restricts a direction. */
export function restricts({ spec }: NetworkPolicy, direction: Direction): boolean {
  const types = spec?.policyTypes ?? ["Ingress", ...(spec?.egress?.length ? ["Egress"] : [])];
  return types.includes(direction);
}

function ingressRules(
  { metadata, spec }: NetworkPolicy,
  pod: PodFacts,
  groups: GroupNames,
): readonly PolicyRule[] {
  return (spec?.ingress ?? []).flatMap(({ from = [], ports = [] }) => {
    const { selectors, blocks } = peersOf(from, metadata.namespace);
    // Named ports are the pod's own.
    const known = [...ports.flatMap((port) => numbered(port) ?? []), ...ownPorts(pod, ports)];
    if (ports.length > 0 && known.length === 0) return [];
    const names = selectors.map((selector) => groups.name(selector));
    return [rule({ isAll: from.length === 0, names, blocks, ports: known })];
  });
}

function egressRules(
  { metadata, spec }: NetworkPolicy,
  groups: GroupNames,
): readonly (PolicyRule | NamedRules<PolicyRule>)[] {
  return (spec?.egress ?? []).flatMap(({ to = [], ports = [] }) => {
    const isAll = to.length === 0;
    const { selectors, blocks } = peersOf(to, metadata.namespace);
    const known = ports.flatMap((port) => numbered(port) ?? []);
    const names = selectors.map((selector) => groups.name(selector));
    const plain =
      ports.length === 0 || known.length > 0 ? [rule({ isAll, names, blocks, ports: known })] : [];
    // The number of a named port may differ for each pod. IP blocks have no named ports. So without `to` it means every pod.
    const everyPod = { namespaceSelector: {}, podSelector: {} };
    const named = ports.filter((port) => typeof port.port === "string");
    return [
      ...plain,
      ...named.flatMap((port) =>
        (isAll ? [everyPod] : selectors).map((selector) => namedRules(selector, port, groups)),
      ),
    ];
  });
}

function namedRules(
  selector: GroupSelector,
  { port, protocol: text }: NetworkPolicyPort,
  groups: GroupNames,
): NamedRules<PolicyRule> {
  const protocol = protocolOf(text);
  const name = String(port);
  const named = { selector, port: { name, protocol } };
  return {
    ports: [named],
    // If there are too many numbers, those without a rule stay blocked.
    of: (numbersOf) =>
      numbersOf(named).numbers.map((number) => ({
        groups: [groups.name({ ...selector, port: { name, protocol, number } })],
        ports: [{ protocol, port: number }],
      })),
  };
}

/** The pods and IP blocks of a rule's peers. */
function peersOf(
  peers: readonly NetworkPolicyPeer[],
  namespace: string,
): { readonly selectors: readonly GroupSelector[]; readonly blocks: readonly PolicyBlock[] } {
  const blocks = peers.flatMap(({ ipBlock }) => (ipBlock ? blockOf(ipBlock) : []));
  return { selectors: selectorsOfPeers(peers, namespace), blocks };
}

/** The pods of a rule's peers. Does not read the IP blocks, because there may be many. */
export function selectorsOfPeers(
  peers: readonly NetworkPolicyPeer[],
  namespace: string,
): readonly GroupSelector[] {
  return peers.flatMap(({ ipBlock, namespaceSelector, podSelector = {} }) => {
    if (ipBlock) return [];
    return [namespaceSelector ? { namespaceSelector, podSelector } : { namespace, podSelector }];
  });
}

type IpBlock = NonNullable<NetworkPolicyPeer["ipBlock"]>;

/** Caches {@link readBlock}. A policy may have thousands of IP blocks, and is read once for each combination of policies it is part of. */
const knownBlocks = new WeakMap<IpBlock, readonly PolicyBlock[]>();

function blockOf(block: IpBlock): readonly PolicyBlock[] {
  const known = knownBlocks.get(block) ?? readBlock(block);
  knownBlocks.set(block, known);
  return known;
}

/** Empty if any part is invalid, because a block without one of its exceptions would allow too much. */
function readBlock({ cidr: text, except: exceptTexts = [] }: IpBlock): readonly PolicyBlock[] {
  const cidr = writtenCidr(text);
  const except = exceptTexts.map(writtenCidr);
  if (!cidr || !except.every((each) => each && contains(cidr, each))) return [];
  const texts = except.flatMap((each) => each?.text ?? []);
  return [defined({ cidr: cidr.text, except: unlessEmpty(texts) })];
}

function rule(options: {
  readonly isAll: boolean;
  readonly names: readonly string[];
  readonly blocks: readonly PolicyBlock[];
  readonly ports: readonly PolicyPort[];
}): PolicyRule {
  const { isAll, names, blocks, ports } = options;
  return defined({
    groups: isAll ? undefined : names,
    blocks: unlessEmpty(blocks),
    ports: unlessEmpty(ports),
  });
}

/** In a policy view, an absent list means no restriction. */
function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length > 0 ? list : undefined;
}

/** A port with a number. Undefined for a named port. */
function numbered({ port, endPort, protocol: text }: NetworkPolicyPort): PolicyPort | undefined {
  const protocol = protocolOf(text);
  if (typeof port === "string") return undefined;
  if (port === undefined) return { protocol };
  const isRange = endPort !== undefined && endPort > port;
  return isRange ? { protocol, port, endPort } : { protocol, port };
}

/** The named ports of a rule, without duplicates. */
function namedOf(ports: readonly NetworkPolicyPort[]): readonly PortName[] {
  const found = new Map<string, PortName>();
  for (const { port: name, protocol } of ports) {
    if (typeof name !== "string") continue;
    const named = { name, protocol: protocolOf(protocol) };
    found.set(keyOf(named), named);
  }
  return [...found.values()];
}

/** The numbers of a rule's named ports in a pod. If there are too many, the rest stays blocked. */
function ownPorts(pod: PodFacts, ports: readonly NetworkPolicyPort[]): readonly PolicyPort[] {
  return namedOf(ports).flatMap((port) =>
    ownNumbers(pod, port)
      .numbers.slice(0, maxNumbers)
      .map((number) => ({ protocol: port.protocol, port: number })),
  );
}

/** Whether the named ports of policies have more numbers in a pod than a list of rules may have ports. */
function hasTooManyOwnPorts(pod: PodFacts, policies: readonly NetworkPolicy[]): boolean {
  if (pod.ports.length === 0) return false;
  let count = 0;
  for (const { spec } of policies)
    for (const { ports = [] } of spec?.ingress ?? [])
      for (const port of namedOf(ports)) count += ownNumbers(pod, port).numbers.length;
  return count > limits.rules;
}
