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

/** Whether a cell takes a line. One that it refuses ends its connection, and any user of the cluster may have caused it. */
export function isReadable(line: string): boolean {
  try {
    decodeLine(line.trimEnd());
    return true;
  } catch {
    return false;
  }
}

/**
 * The same for a Service. Its endpoints are not read again: kip has written them itself, each from an address and a port, and
 * reading 36,000 takes longer than all else that is done for the Service.
 *
 * @param line of the view
 */
export function isReadableService(line: string, key: string, view: ServiceView): boolean {
  return (
    Buffer.byteLength(line) <= limits.lineBytes &&
    view.ports.flatMap(endpointLists).every((list) => list.length <= limits.endpoints) &&
    isReadable(encodeLine({ kind: "service", key, view: withoutEndpoints(view) }))
  );
}

/**
 * The same for a policy. Its blocks are not read again: kip has written them itself, each from a range, and reading 16,000 takes longer
 * than all else that is done for the rules of a pod.
 *
 * @param line of the policy
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
