import { defined } from "@kip/base";
import {
  decodeLine,
  encodeLine,
  hasShortLists,
  limits,
  type PolicyRule,
  type PolicyView,
  type ServiceView,
  type TierView,
} from "@kip/network-view";
import { endpointLists, withoutEndpoints } from "../services/service-cost.ts";

/** Whether a cell accepts a line. A rejected line ends its connection, and any user of the cluster might cause one. */
export function isReadable(line: string): boolean {
  try {
    decodeLine(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether a cell accepts the line of a Service. Does not parse the endpoints again: kip has made them from addresses and ports, and parsing
 * 36,000 would take longer than all other work for the Service.
 *
 * @param line the encoded view
 */
export function isReadableService(line: string, key: string, view: ServiceView): boolean {
  return (
    Buffer.byteLength(line) <= limits.lineBytes &&
    view.ports.flatMap(endpointLists).every((list) => list.length <= limits.endpoints) &&
    isReadable(encodeLine({ kind: "service", key, view: withoutEndpoints(view) }))
  );
}

/**
 * Whether a cell accepts the line of a policy. Does not parse the IP blocks again: kip has made them from ranges, and parsing 16,000 would
 * take longer than all other work for the rules of a pod.
 *
 * @param line the encoded policy
 */
export function isReadablePolicy(line: string, policy: PolicyView): boolean {
  const { admin, baseline } = policy;
  const plain = { ...policy, ...withoutBlocks(policy) };
  const tiers = {
    admin: admin && withoutBlocks(admin),
    baseline: baseline && withoutBlocks(baseline),
  };
  return (
    Buffer.byteLength(line) <= limits.lineBytes &&
    [policy, admin, baseline].every(areShort) &&
    isReadable(encodeLine({ kind: "policy", policy: defined({ ...plain, ...tiers }) }))
  );
}

/** Rules of both directions, of NetworkPolicies or a tier. */
interface Rules<Rule extends PolicyRule> {
  readonly ingress?: readonly Rule[] | undefined;
  readonly egress?: readonly Rule[] | undefined;
}

function withoutBlocks<Rule extends PolicyRule>({ ingress, egress }: Rules<Rule>): Rules<Rule> {
  const short = (rule: Rule): Rule => (rule.blocks ? { ...rule, blocks: [] } : rule);
  return defined({ ingress: ingress?.map(short), egress: egress?.map(short) });
}

function areShort({ ingress = [], egress = [] }: PolicyView | TierView = {}): boolean {
  return [ingress, egress].every((rules) => hasShortLists(rules, limits.rules));
}
