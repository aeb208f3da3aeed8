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

/** What rules need to know of groups of addresses. */
export interface GroupNames {
  /** Name of the group of pods that a selector chooses. */
  name(selector: GroupSelector): string;
  /**
   * Numbers that pods of a group have for a named port.
   *
   * @param most how many of them, if not all can have rules; the most common first
   */
  portNumbers(selector: GroupSelector, port: PortName, most?: number): PortNumbers;
}

/** Where the rules of one direction come from. */
export interface RuleOrigins {
  /** Names of the policies that restrict the direction. */
  readonly restricting: readonly string[];
  /** Names of those without rules, as the policies of the namespace choose too many addresses. See {@link PolicyBudget}. */
  readonly refused: readonly string[];
  /** Whether the policies are over the limits of a pod: then none has rules. */
  readonly isOverLimits: boolean;
  /** For each rule of the view, the name of its policy. */
  readonly ofRules: readonly string[];
  /** For each rule of the administrators' tiers, kind and name of its policy. */
  readonly admin: readonly string[];
  readonly baseline: readonly string[];
}

/** A policy of one pod, with the policies that it is made of. */
export interface PodPolicy {
  readonly view: PolicyView;
  readonly ingress: RuleOrigins;
  readonly egress: RuleOrigins;
}

/**
 * What may reach a pod, and what it may reach. If NetworkPolicies restrict a direction, what any of them allows passes; if none does,
 * everything passes. The tiers of administrators come before that and after it.
 *
 * @param policies NetworkPolicies that select the pod
 * @param tiers policies of administrators that select the pod
 * @param hasTooManyLabels see {@link PolicyChoice}: directions that a policy with a long selector restricts are closed
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

/** What decides whether the NetworkPolicies of a pod are within its limits. */
interface Selected {
  readonly pod: PodFacts;
  readonly policies: readonly NetworkPolicy[];
  readonly hasTooManyLabels: boolean;
}

/** The NetworkPolicies of a pod that its rules are made from: not those that only restrict directions which are over the limits of a pod. */
export function policiesWithRules(selected: Selected): readonly NetworkPolicy[] {
  const within = (["Ingress", "Egress"] as const).filter((each) => !isOverLimits(selected, each));
  if (within.length === 2) return selected.policies;
  return selected.policies.filter((policy) => within.some((each) => restricts(policy, each)));
}

/** Whether a direction of a pod is closed, as its NetworkPolicies are too large together. */
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
    // A named port may be another number in each pod. Blocks have no named ports, so without `to` it means every pod.
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
    // If there are too many numbers, those without a rule are not allowed.
    of: (numbersOf) =>
      numbersOf(named).numbers.map((number) => ({
        groups: [groups.name({ ...selector, port: { name, protocol, number } })],
        ports: [{ protocol, port: number }],
      })),
  };
}

/** Pods and blocks that the peers of a rule mean. */
function peersOf(
  peers: readonly NetworkPolicyPeer[],
  namespace: string,
): { readonly selectors: readonly GroupSelector[]; readonly blocks: readonly PolicyBlock[] } {
  const blocks = peers.flatMap(({ ipBlock }) => (ipBlock ? blockOf(ipBlock) : []));
  return { selectors: selectorsOfPeers(peers, namespace), blocks };
}

/** Pods that the peers of a rule mean. Blocks, of which there may be many, are not read. */
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

/** Caches {@link readBlock}: a policy may have thousands of blocks, and is read for each set of policies that it is in. */
const knownBlocks = new WeakMap<IpBlock, readonly PolicyBlock[]>();

function blockOf(block: IpBlock): readonly PolicyBlock[] {
  const known = knownBlocks.get(block) ?? readBlock(block);
  knownBlocks.set(block, known);
  return known;
}

/** Empty if any part is invalid: without one of its exceptions, a block would allow more than the policy says. */
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

/** In the view of a policy an absent list means no restriction. */
function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length > 0 ? list : undefined;
}

/** A port that is not named; undefined for one that is. */
function numbered({ port, endPort, protocol: text }: NetworkPolicyPort): PolicyPort | undefined {
  const protocol = protocolOf(text);
  if (typeof port === "string") return undefined;
  if (port === undefined) return { protocol };
  const isRange = endPort !== undefined && endPort > port;
  return isRange ? { protocol, port, endPort } : { protocol, port };
}

/** The named ones among ports of a rule, each once. */
function namedOf(ports: readonly NetworkPolicyPort[]): readonly PortName[] {
  const found = new Map<string, PortName>();
  for (const { port: name, protocol } of ports) {
    if (typeof name !== "string") continue;
    const named = { name, protocol: protocolOf(protocol) };
    found.set(keyOf(named), named);
  }
  return [...found.values()];
}

/** The numbers that the named ports of a rule have in a pod. If there are too many, the others are not allowed. */
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
