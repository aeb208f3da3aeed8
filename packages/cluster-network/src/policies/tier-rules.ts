import { defined } from "@kip/base";
import type { PolicyPort, PolicyRule, TierRule } from "@kip/network-view";
import type { GroupSelector } from "./address-groups.ts";
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
      matchesOf(rule, pod, options.direction, groups).map((match) => ({
        rule: { ...match, action: rule.action },
        title: policy.title,
      })),
    ),
  );
  return { rules: found.map(({ rule }) => rule), titles: found.map(({ title }) => title) };
}

/** A rule with named ports outwards becomes several: a name is another number in each pod. */
function matchesOf(
  { match }: TierPolicyRule,
  pod: PodFacts,
  direction: "ingress" | "egress",
  groups: GroupNames,
): readonly PolicyRule[] {
  if (!match) return [{}];
  const { ports } = match;
  const isPlain = (port: TierPort): port is PolicyPort => !("name" in port);
  const plain = ports.filter(isPlain);
  const names = ports.flatMap((port) => ("name" in port ? [port.name] : []));
  const own = direction === "ingress" ? pod.ports.filter(({ name }) => names.includes(name)) : [];
  const known = [...plain, ...own.map(({ protocol, port }) => ({ protocol, port }))];
  const named =
    direction === "egress" ? match.pods.flatMap((pods) => namedRules(pods, names, groups)) : [];
  if (ports.length > 0 && known.length === 0) return named;
  return [peersRule(match, known, groups), ...named];
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
  pods: GroupSelector,
  names: readonly string[],
  groups: GroupNames,
): readonly PolicyRule[] {
  return names.flatMap((name) =>
    (["TCP", "UDP", "SCTP"] as const).flatMap((protocol) =>
      groups.portNumbers(pods, { name, protocol }).map((number) => ({
        groups: [groups.name({ ...pods, port: { name, protocol, number } })],
        ports: [{ protocol, port: number }],
      })),
    ),
  );
}
