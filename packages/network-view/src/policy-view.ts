import { decode, type Decoder } from "@kip/base";
import { cidr, name, port, protocol, type Protocol } from "./decoders.ts";
import { limits } from "./limits.ts";

const { list, object, oneOf, optional } = decode;

/** Ports of one protocol. */
export interface PolicyPort {
  readonly protocol: Protocol;
  /** @default all ports */
  readonly port?: number | undefined;
  /** Last port of a range that begins with `port`. @default `port` alone */
  readonly endPort?: number | undefined;
}

/** A range of addresses without some parts of it. */
export interface PolicyBlock {
  readonly cidr: string;
  readonly except?: readonly string[] | undefined;
}

/** What may pass: packets of one of the peers to one of the ports. */
export interface PolicyRule {
  /** Names of address groups. A rule with neither groups nor blocks is for every peer. */
  readonly groups?: readonly string[] | undefined;
  readonly blocks?: readonly PolicyBlock[] | undefined;
  /** @default all ports and protocols */
  readonly ports?: readonly PolicyPort[] | undefined;
}

/** What becomes of packets that a rule matches. `pass`: the rest of the tier is skipped. */
export type RuleAction = "allow" | "deny" | "pass";

/** A rule of a tier. The first one that matches decides. */
export interface TierRule extends PolicyRule {
  readonly action: RuleAction;
}

/** Rules in order. What none of them matches goes on behind the tier. */
export interface TierView {
  readonly ingress?: readonly TierRule[] | undefined;
  readonly egress?: readonly TierRule[] | undefined;
}

/**
 * What may reach one pod, and what it may reach. `ingress` and `egress` are what NetworkPolicies allow: an absent direction is not
 * restricted; an empty one is closed. The administrator's tiers are before it and, for directions that no NetworkPolicy restricts,
 * behind it; what none of all these decides passes.
 */
export interface PolicyView {
  readonly ingress?: readonly PolicyRule[] | undefined;
  readonly egress?: readonly PolicyRule[] | undefined;
  readonly admin?: TierView | undefined;
  readonly baseline?: TierView | undefined;
}

const max = { max: limits.rules };

const ruleFields = {
  groups: optional(list(name, max)),
  blocks: optional(list(object({ cidr, except: optional(list(cidr, max)) }), max)),
  ports: optional(list(object({ protocol, port: optional(port), endPort: optional(port) }), max)),
};

const rule: Decoder<PolicyRule> = object(ruleFields);
const tierRule: Decoder<TierRule> = object({
  ...ruleFields,
  action: oneOf("allow", "deny", "pass"),
});
const tier: Decoder<TierView> = object({
  ingress: optional(list(tierRule, max)),
  egress: optional(list(tierRule, max)),
});
const plainFields = { ingress: optional(list(rule, max)), egress: optional(list(rule, max)) };

/** Decodes a {@link PolicyView} without tiers. */
export const decodePlainPolicy: Decoder<PolicyView> = object(plainFields);

/** Decodes a {@link PolicyView} that may have tiers. */
export const decodeTieredPolicy: Decoder<PolicyView> = object({
  ...plainFields,
  admin: optional(tier),
  baseline: optional(tier),
});

/** Whether a policy has rules that only agents of version 2 of {@link policyVersion} or later know. */
export function hasTiers({ admin, baseline }: PolicyView): boolean {
  return admin !== undefined || baseline !== undefined;
}

/** Whether rules, and each list in them, are at most so many. */
export function hasShortLists(rules: readonly PolicyRule[], most: number): boolean {
  const areFew = (list: readonly unknown[] = []): boolean => list.length <= most;
  return (
    areFew(rules) &&
    rules.every(
      ({ groups, blocks = [], ports }) =>
        [groups, blocks, ports].every(areFew) && blocks.every(({ except }) => areFew(except)),
    )
  );
}

/**
 * What an agent says it knows of policies: 2 for tiers with actions, 3 for lists of more than `limits.rulesOfEarlierAgents`. Agents that
 * say nothing know rules that allow.
 */
export const policyVersion = 3;

/** Names of the groups that a policy uses. */
export function groupsOf(policy: PolicyView): ReadonlySet<string> {
  const parts = [policy, policy.admin, policy.baseline];
  const rules = parts.flatMap((part) => [...(part?.ingress ?? []), ...(part?.egress ?? [])]);
  return new Set(rules.flatMap(({ groups = [] }) => groups));
}
