import { defined } from "@kip/base";
import type { PolicyPort, PolicyRule, Protocol, RuleAction, TierRule } from "@kip/network-view";
import type { GroupSelector, PortName } from "./address-groups.ts";
import type { PodFacts } from "./pod-facts.ts";
import type { GroupNames } from "./pod-policy.ts";
import type { RuleMatch, TierPolicy, TierPolicyRule, TierPort } from "./tier-policy.ts";

/** The rules of one direction of a tier, and the policy of each. */
export interface TierRules {
  readonly rules: readonly TierRule[];
  readonly titles: readonly string[];
}

/**
 * The rules of policies of one tier for a pod, in their order: by priority, then by name, then as they are written.
 *
 * @param policies those that select the pod
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
  const found = ordered.flatMap((policy) =>
    policy[direction].flatMap((rule) =>
      rulesOf(rule, pod, options.direction, groups).map((made) => ({
        rule: made,
        title: policy.title,
      })),
    ),
  );
  return { rules: found.map(({ rule }) => rule), titles: found.map(({ title }) => title) };
}

/** A rule with named ports outwards becomes several: a name is another number in each pod. */
function rulesOf(
  { match, action }: TierPolicyRule,
  pod: PodFacts,
  direction: "ingress" | "egress",
  groups: GroupNames,
): readonly TierRule[] {
  if (!match) return [{ action }];
  const { ports } = match;
  const isPlain = (port: TierPort): port is PolicyPort => !("name" in port);
  const plain = ports.filter(isPlain);
  const names = ports.flatMap((port) => ("name" in port ? [port.name] : []));
  const own = direction === "ingress" ? pod.ports.filter(({ name }) => names.includes(name)) : [];
  const known = [...plain, ...own.map(({ protocol, port }) => ({ protocol, port }))];
  const isOfPorts = ports.length > 0 && known.length === 0;
  const peers = isOfPorts ? [] : [{ ...peersRule(match, known, groups), action }];
  return [...peers, ...(direction === "egress" ? namedRules(match, names, action, groups) : [])];
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
): readonly TierRule[] {
  const rules: TierRule[] = [];
  const closing: TierRule[] = [];
  for (const pods of match.pods)
    for (const port of names.flatMap(ofEachProtocol)) {
      const { protocol } = port;
      const { numbers, areAll } = groups.portNumbers(pods, port);
      for (const number of numbers)
        rules.push({
          groups: [groups.name({ ...pods, port: { ...port, number } })],
          ports: [{ protocol, port: number }],
          action,
        });
      if (areAll || action === "allow") continue;
      // Without a rule, other numbers could be reached by what comes later: pods that have them are closed.
      const otherThan = new Set(numbers);
      closing.push({
        groups: [groups.name({ ...pods, port: { ...port, otherThan } })],
        ports: [{ protocol }],
        action: "deny",
      });
    }
  return [...rules, ...closing];
}

function ofEachProtocol(name: string): readonly (PortName & { readonly protocol: Protocol })[] {
  return (["TCP", "UDP", "SCTP"] as const).map((protocol) => ({ name, protocol }));
}
