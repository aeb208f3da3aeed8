import type { Pod } from "@kip/k8s-types";
import { ipFamily, type PolicyRule } from "@kip/network-view";
import type { PodPolicy, RuleOrigins } from "../policies/pod-policy.ts";
import { addressesOf, nodeOf, podAt, podName, type KnownCluster } from "./cluster-objects.ts";
import { finding, type Finding } from "./finding.ts";
import { matchingRule, type Attempt } from "./matching-rule.ts";

/** The decision of one direction of a pod's policy about a connection. */
interface Decision {
  readonly isAllowed: boolean;
  /** Names of the policies that decide. Empty if none restricts the direction. */
  readonly policies: readonly string[];
  /** Whether the policies have more rules than a cell accepts. */
  readonly isTooLong?: boolean;
  /** Names of policies without rules, because those of their namespace match too many addresses. */
  readonly refused?: readonly string[];
  /** Whether a rule of a tier denies the connection. */
  readonly isDenial?: boolean;
  /** Whether a policy of the pod cannot be read. Then nothing passes. */
  readonly isUnreadable?: boolean;
}

/** A connection to a known address. */
export interface PolicyAttempt extends Attempt {
  /** The destination for the policies of the source, if the address is only translated on the other side. @default address and port */
  readonly seen?: Pick<Attempt, "address" | "port"> | undefined;
}

/** Explains whether a connection from a pod to an address passes the policies of both sides. */
export function explainPolicies(
  cluster: KnownCluster,
  source: Pod,
  { seen, ...attempt }: PolicyAttempt,
): Finding {
  const { address, port, protocol } = attempt;
  const where = `${address} port ${port}/${protocol}`;
  const target = podAt(cluster.objects, address);
  const named = target ? `${podName(target)} (${where})` : where;
  const own = addressesOf(source).find((each) => ipFamily(each) === ipFamily(address));
  if (own === address) return finding("passes", `A pod always reaches itself (${where})`);
  if (own === undefined)
    return finding("dropped", `${podName(source)} has no IPv${ipFamily(address)} address`);
  const out = decide(cluster, source, "egress", { ...attempt, ...seen });
  if (!out.isAllowed) {
    const to = seen ? `${seen.address} port ${seen.port}/${protocol}` : named;
    return finding("dropped", refusal(out, podName(source), "reach", to));
  }
  const isNode = target !== undefined && isNodeAddress(cluster, target, own);
  const back = { ...attempt, address: own };
  const into = target && !isNode ? decide(cluster, target, "ingress", back) : free;
  if (target && !into.isAllowed) {
    const from = `${podName(source)} (${own}) at port ${port}/${protocol}`;
    return finding("dropped", refusal(into, podName(target), "be reached by", from));
  }
  const deciding = [
    ...out.policies.map((name) => `${name} (egress of ${podName(source)})`),
    ...into.policies.map((name) => `${name} (ingress of ${target ? podName(target) : ""})`),
  ];
  const reason =
    deciding.length > 0
      ? `allowed by ${deciding.join(", ")}`
      : isNode
        ? "the addresses of a pod's node always reach it"
        : "no policy restricts this";
  return finding("passes", `${podName(source)} reaches ${named}: ${reason}`);
}

const free: Decision = { isAllowed: true, policies: [] };

function decide(
  cluster: KnownCluster,
  pod: Pod,
  direction: "ingress" | "egress",
  attempt: Attempt,
): Decision {
  // Policies only apply to pods with their own network.
  const policy = pod.spec.hostNetwork === true ? undefined : cluster.policies.of(pod);
  if (policy === "unreadable") return { isAllowed: false, policies: [], isUnreadable: true };
  if (!policy) return free;
  const find = (rules: readonly PolicyRule[] | undefined): number =>
    matchingRule(rules ?? [], attempt, (name) => cluster.policies.addresses(name));
  if (policy.tooLong.includes(direction))
    return { isAllowed: false, policies: allOrigins(policy[direction]), isTooLong: true };
  return (
    tierDecision(policy, { tier: "admin", direction, find }) ??
    ownDecision(policy, direction, find) ??
    tierDecision(policy, { tier: "baseline", direction, find }) ??
    free
  );
}

type FindRule = (rules: readonly PolicyRule[] | undefined) => number;

/** The decision of a tier. Undefined if it passes the connection on. */
function tierDecision(
  policy: PodPolicy,
  options: {
    readonly tier: "admin" | "baseline";
    readonly direction: "ingress" | "egress";
    readonly find: FindRule;
  },
): Decision | undefined {
  const { tier, direction, find } = options;
  const rules = policy.view[tier]?.[direction];
  const index = find(rules);
  const action = rules?.[index]?.action;
  if (action === undefined || action === "pass") return undefined;
  return byTier(policy[direction][tier][index] ?? "", action);
}

/** The decision of NetworkPolicies. Undefined if none restricts the direction. */
function ownDecision(
  { view, ...origins }: PodPolicy,
  direction: "ingress" | "egress",
  find: FindRule,
): Decision | undefined {
  const rules = view[direction];
  if (!rules) return undefined;
  const { ofRules, restricting } = origins[direction];
  const name = ofRules[find(rules)];
  const { refused, isOverLimits } = origins[direction];
  return name === undefined
    ? {
        isAllowed: false,
        policies: restricting.map(networkPolicy),
        isTooLong: isOverLimits,
        refused: refused.map(networkPolicy),
      }
    : { isAllowed: true, policies: [networkPolicy(name)] };
}

function byTier(title: string, action: "allow" | "deny"): Decision {
  return { isAllowed: action === "allow", policies: [title], isDenial: action === "deny" };
}

function networkPolicy(name: string): string {
  return `NetworkPolicy ${name}`;
}

function allOrigins({ restricting, admin, baseline }: RuleOrigins): readonly string[] {
  return [...new Set([...admin, ...restricting.map(networkPolicy), ...baseline])];
}

function isNodeAddress({ objects }: KnownCluster, { spec }: Pod, address: string): boolean {
  const addresses = nodeOf(objects, spec.nodeName)?.status?.addresses ?? [];
  return addresses.some((each) => each.address === address);
}

function refusal(
  { policies, isTooLong, isUnreadable, isDenial, refused = [] }: Decision,
  pod: string,
  verb: "reach" | "be reached by",
  peer: string,
): string {
  const names = [...new Set(policies)].join(", ");
  const are = new Set(policies).size === 1;
  const start = `${pod} may not ${verb} ${peer}: `;
  if (isUnreadable === true) return `${start}its policies cannot be read, so nothing passes`;
  if (isDenial === true) return `${start}a rule of ${names} denies it`;
  if (isTooLong === true)
    return `${start}${names} ${are ? "has" : "have"} more rules than a cell takes, so nothing passes`;
  const without = `; ${refused.join(", ")} ${refused.length === 1 ? "has" : "have"} no rules, as policies of the namespace choose too many addresses`;
  return `${start}${names} ${are ? "restricts" : "restrict"} this direction, and no rule allows it${refused.length > 0 ? without : ""}`;
}
