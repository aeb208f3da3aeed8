import {
  type PolicyBlock,
  type PolicyPort,
  type PolicyRule,
  type PolicyView,
  type TierRule,
} from "@kip/network-view";
import { ofFamily, type Family } from "./family.ts";
import { rangeSet } from "./range-set.ts";
import { RuleSetBuilder, type RuleSet } from "./rule-set.ts";

/** The names of the table of policies. They are used in turn, because a new table is in force before the old one is removed. */
export const policyTables = ["kip_policy", "kip_policy_b"] as const;

/** The name of a table of policies. */
export type PolicyTable = (typeof policyTables)[number];

/** The other name. */
export function otherPolicyTable(name: PolicyTable): PolicyTable {
  return name === policyTables[0] ? policyTables[1] : policyTables[0];
}

/**
 * The rules of a pod's policy in the table of one family, without the addresses of groups.
 *
 * @param groups names of the known groups. Other groups are treated as empty
 */
export function policyRules(
  policy: PolicyView,
  groups: ReadonlySet<string>,
  family: Family,
): RuleSet {
  const rules = new RuleSetBuilder();
  for (const name of groups)
    rules.sets.set(groupSet(name), { kind: "set", definition: `type ${family.type};` });
  const inward = { name: "ingress", field: "saddr", family, groups } as const;
  const outward = { name: "egress", field: "daddr", family, groups } as const;
  rules.chains.set("ingress", [
    `${family.ip} saddr @nodes accept`,
    ...directionChain(rules, policy, inward),
  ]);
  rules.chains.set("egress", directionChain(rules, policy, outward));
  return rules;
}

/**
 * The chain of one direction. First come the administrators' rules, then the rules of NetworkPolicies. If no NetworkPolicy restricts the
 * direction, the rules of the baseline come instead. The administrators' rules are in a separate chain, so that `pass` can return from it.
 * Packets that reach the end are dropped.
 */
function directionChain(
  rules: RuleSetBuilder,
  { admin, baseline, ...plain }: PolicyView,
  direction: Direction,
): readonly string[] {
  const { name } = direction;
  const first = tierRules(admin?.[name], direction, "return");
  if (first.length > 0) rules.chains.set(`admin_${name}`, first);
  return [
    ...(first.length > 0 ? [`jump admin_${name}`] : []),
    ...(plain[name] === undefined ? tierRules(baseline?.[name], direction, "accept") : []),
    ...directionRules(plain[name], direction),
  ];
}

function tierRules(
  list: readonly TierRule[] | undefined,
  direction: Direction,
  pass: "return" | "accept",
): readonly string[] {
  const verdicts = { allow: "accept", deny: "drop", pass };
  return (list ?? []).flatMap((rule) => ruleTexts(rule, direction, verdicts[rule.action]));
}

/**
 * The table of policies without rules. The pod cannot send or receive until rules are added.
 *
 * The table checks packets after the translation of Services, so they have the endpoint's address. Replies pass. Connections that were allowed
 * when they began stay open. A pod can always reach itself. Packets from the machine to its pod are not forwarded, so they are not restricted.
 */
export function closedPolicyTable(
  table: string,
  { family, cable, nodes }: { family: Family; cable: string; nodes: readonly string[] },
): string {
  const list = ofFamily(nodes, family).join(", ");
  return `
add table ${table}
delete table ${table}
table ${table} {
  set nodes {
    type ${family.type}
    ${list === "" ? "" : `elements = { ${list} }`}
  }
  chain ingress {
  }
  chain egress {
  }
  chain through {
    type filter hook forward priority filter - 5
    iifname "${cable}" oifname "${cable}" accept
    ct state established,related accept
    iifname "${cable}" jump egress
    oifname "${cable}" jump ingress
    iifname "${cable}" drop
    oifname "${cable}" drop
  }
}
`;
}

/** Name of the set of a group. */
export function groupSet(name: string): string {
  return `group/${name}`;
}

interface Direction {
  readonly name: "ingress" | "egress";
  /** The field of a packet with the peer's address. */
  readonly field: "saddr" | "daddr";
  readonly family: Family;
  readonly groups: ReadonlySet<string>;
}

function directionRules(
  list: readonly PolicyRule[] | undefined,
  direction: Direction,
): readonly string[] {
  if (list === undefined) return ["accept"];
  return list.flatMap((rule) => ruleTexts(rule, direction, "accept"));
}

function ruleTexts(rule: PolicyRule, direction: Direction, verdict: string): readonly string[] {
  const peers = peerMatches(rule, direction);
  const ports = portMatches(rule.ports);
  return peers.flatMap((peer) => ports.map((port) => `${peer}${port}${verdict}`));
}

/** Expressions that match the peers of a rule. An empty one matches all. */
function peerMatches(rule: PolicyRule, { field, family, groups }: Direction): readonly string[] {
  if (rule.groups === undefined && rule.blocks === undefined) return [""];
  const match = `${family.ip} ${field}`;
  const known = (rule.groups ?? []).filter((name) => groups.has(name));
  const blocks = (rule.blocks ?? []).filter(({ cidr }) => ofFamily([cidr], family).length > 0);
  const whole = blocks.filter(({ except = [] }) => except.length === 0);
  return [
    ...known.map((name) => `${match} @${groupSet(name)} `),
    ...(whole.length === 0 ? [] : [`${match} ${rangeSet(whole.map(({ cidr }) => cidr))} `]),
    ...blocks.filter((block) => !whole.includes(block)).flatMap((b) => exceptMatch(match, b)),
  ];
}

function exceptMatch(match: string, { cidr, except = [] }: PolicyBlock): readonly string[] {
  return [`${match} ${cidr} ${match} != ${rangeSet(except)} `];
}

/** Expressions that match the ports of a rule, one for each protocol. An empty one matches all. */
function portMatches(ports: readonly PolicyPort[] | undefined): readonly string[] {
  if (ports === undefined) return [""];
  return [...Map.groupBy(ports, ({ protocol }) => protocol)].map(([protocol, entries]) => {
    const match = `meta l4proto ${protocol.toLowerCase()} `;
    if (entries.some(({ port }) => port === undefined)) return match;
    return `${match}th dport { ${portRanges(entries).join(", ")} } `;
  });
}

/** The ports as ranges that do not overlap. */
function portRanges(ports: readonly PolicyPort[]): readonly string[] {
  const ranges = ports
    .map(({ port = 0, endPort = port }) => ({ first: port, last: endPort }))
    .sort((a, b) => a.first - b.first);
  const merged: { first: number; last: number }[] = [];
  for (const { first, last } of ranges) {
    const before = merged.at(-1);
    if (before && first <= before.last + 1) before.last = Math.max(before.last, last);
    else merged.push({ first, last });
  }
  return merged.map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`));
}
