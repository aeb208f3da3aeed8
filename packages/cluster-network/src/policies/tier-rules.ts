import { defined } from "@kip/base";
import type { PolicyPort, PolicyRule, RuleAction, TierRule } from "@kip/network-view";
import type { GroupSelector, PortName } from "./group-selector.ts";
import type { PodFacts } from "./pod-facts.ts";
import { withNumbers, type NamedRules, type PodsPort } from "./named-rules.ts";
import type { GroupNames } from "./pod-policy.ts";
import { ownNumbers } from "./pod-ports.ts";
import { maxNumbers, type PortNumbers } from "./port-numbers.ts";
import type { RuleMatch, TierPolicy, TierPolicyRule, TierPort } from "./tier-policy.ts";

/** The rules of one direction of a tier, and the title of each rule's policy. */
export interface TierRules {
  readonly rules: readonly TierRule[];
  readonly titles: readonly string[];
}

/**
 * The rules of one tier for a pod. Ordered by priority, then by name, then by their order in the policy.
 *
 * @param policies the policies of the tier that select the pod
 */
export function tierRules(
  pod: PodFacts,
  policies: readonly TierPolicy[],
  options: { readonly direction: "ingress" | "egress"; readonly groups: GroupNames },
): TierRules {
  const { direction, groups } = options;
  const ordered = [...policies].sort(
    (a, b) => a.priority - b.priority || (a.title < b.title ? -1 : 1),
  );
  const drafts = ordered.flatMap(({ title, [direction]: rules }) =>
    rules.flatMap((each) => rulesOf(each, pod, direction, groups).map((rule) => ({ rule, title }))),
  );
  const found = withNumbers(drafts, groups);
  return { rules: found.map(({ rule }) => rule), titles: found.map(({ title }) => title) };
}

/** An egress rule with named ports becomes several rules, see {@link NamedRules}. */
function rulesOf(
  { match, action }: TierPolicyRule,
  pod: PodFacts,
  direction: "ingress" | "egress",
  groups: GroupNames,
): readonly (TierRule | NamedRules<TierRule>)[] {
  if (!match) return [{ action }];
  const { ports } = match;
  const isPlain = (port: TierPort): port is PolicyPort => !("name" in port);
  const plain = ports.filter(isPlain);
  const names = ports.flatMap((port) => ("name" in port ? [port.name] : []));
  const own = direction === "ingress" ? ownPorts(pod, names) : [];
  const known = [...plain, ...own.flatMap((each) => each.ports)];
  const isOfPorts = ports.length > 0 && known.length === 0;
  const peers = isOfPorts ? [] : [{ ...peersRule(match, known, groups), action }];
  // The pod's own ports are treated as other pods' in closingRules().
  const closed = action === "allow" ? [] : own.flatMap(({ closed: protocol }) => protocol ?? []);
  const closing: readonly TierRule[] =
    closed.length === 0 ? [] : [{ ...peersRule(match, closed, groups), action: "deny" }];
  const isNamed = direction === "egress" && names.length > 0;
  return [...peers, ...closing, ...(isNamed ? [namedRules(match, names, action, groups)] : [])];
}

/** The numbers of named ports in a pod. If a port has more numbers than can have rules, `closed` is its whole protocol. */
function ownPorts(
  pod: PodFacts,
  names: readonly string[],
): readonly { readonly ports: readonly PolicyPort[]; readonly closed?: PolicyPort | undefined }[] {
  return [...new Set(names)].flatMap(ofEachProtocol).map((port) => {
    const { protocol } = port;
    const { numbers } = ownNumbers(pod, port);
    const first = numbers.slice(0, maxNumbers).map((number) => ({ protocol, port: number }));
    return { ports: first, closed: numbers.length > maxNumbers ? { protocol } : undefined };
  });
}

function peersRule(
  { pods, nodes, networks }: RuleMatch,
  ports: readonly PolicyPort[],
  groups: GroupNames,
): PolicyRule {
  const selectors: readonly GroupSelector[] = [
    ...pods,
    ...nodes.map((selector) => ({ nodes: selector, podSelector: {} })),
  ];
  return defined({
    groups: selectors.map((selector) => groups.name(selector)),
    blocks: networks.length > 0 ? networks.map((cidr) => ({ cidr })) : undefined,
    ports: ports.length > 0 ? ports : undefined,
  });
}

function namedRules(
  match: RuleMatch,
  names: readonly string[],
  action: RuleAction,
  groups: GroupNames,
): NamedRules<TierRule> {
  const ports = match.pods.flatMap((selector) =>
    names.flatMap(ofEachProtocol).map((port) => ({ selector, port })),
  );
  return {
    ports,
    of: (numbersOf) => [
      ...ports.flatMap((each) => rulesOfNumbers(each, numbersOf(each), action, groups)),
      // These come last, because they also match numbers that have rules.
      ...ports.flatMap((each) => closingRules(each, numbersOf(each), action, groups)),
    ],
  };
}

function rulesOfNumbers(
  { selector, port }: PodsPort,
  { numbers }: PortNumbers,
  action: RuleAction,
  groups: GroupNames,
): readonly TierRule[] {
  const { protocol } = port;
  return numbers.map((number) => ({
    groups: [groups.name({ ...selector, port: { ...port, number } })],
    ports: [{ protocol, port: number }],
    action,
  }));
}

/** If a deny or pass rule does not fit all numbers, later rules must not allow the others. So pods with other numbers are closed. */
function closingRules(
  { selector, port }: PodsPort,
  { numbers, areAll }: PortNumbers,
  action: RuleAction,
  groups: GroupNames,
): readonly TierRule[] {
  if (areAll || action === "allow") return [];
  const otherThan = new Set(numbers);
  const { protocol } = port;
  const group = groups.name({ ...selector, port: { ...port, otherThan } });
  return [{ groups: [group], ports: [{ protocol }], action: "deny" }];
}

function ofEachProtocol(name: string): readonly PortName[] {
  return (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({ name, protocol }));
}
