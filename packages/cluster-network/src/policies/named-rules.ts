import { limits } from "@kip/network-view";
import type { GroupSelector, PortName } from "./group-selector.ts";
import type { GroupNames } from "./pod-policy.ts";
import { fairShare, maxNumbersOfList, type PortNumbers } from "./port-numbers.ts";

/** A named port of the pods that a selector chooses. */
export interface PodsPort {
  readonly selector: GroupSelector;
  readonly port: PortName;
}

/** Rules of egress for named ports, which may be another number in each pod that is reached. */
export interface NamedRules<Rule> {
  readonly ports: readonly PodsPort[];
  /** Makes the rules, given the numbers of each port. */
  readonly of: (numbersOf: (port: PodsPort) => PortNumbers) => readonly Rule[];
}

/** A rule, or rules for named ports, and the policy that has them. */
export interface RuleDraft<Rule> {
  readonly title: string;
  readonly rule: Rule | NamedRules<Rule>;
}

/**
 * The rules of one list of a pod, with numbers in place of named ports. If there are too many numbers together, {@link fairShare} decides
 * how many each port may have: however many numbers other pods have, the direction is not closed, and ports with few numbers keep them.
 */
export function withNumbers<Rule extends object>(
  drafts: readonly RuleDraft<Rule>[],
  groups: GroupNames,
): readonly { readonly title: string; readonly rule: Rule }[] {
  const ports = drafts.flatMap(({ rule }) => (isNamed(rule) ? rule.ports : []));
  const known = new Map(ports.map((each) => [each, groups.portNumbers(each.selector, each.port)]));
  const counts = [...known.values()].flatMap(({ numbers }) => numbers.length || []);
  // Each named port may need one more rule, which closes the numbers that have none.
  const others = drafts.filter(({ rule }) => !isNamed(rule)).length + counts.length;
  const most = fairShare(counts, Math.min(maxNumbersOfList, limits.rules - others));
  const numbersOf = (each: PodsPort): PortNumbers => {
    const all = known.get(each);
    const areFew = all !== undefined && all.numbers.length <= most;
    return areFew ? all : groups.portNumbers(each.selector, each.port, most);
  };
  return drafts.flatMap(({ title, rule }) => {
    const rules = isNamed(rule) ? rule.of(numbersOf) : [rule];
    return rules.map((made) => ({ title, rule: made }));
  });
}

function isNamed<Rule extends object>(rule: Rule | NamedRules<Rule>): rule is NamedRules<Rule> {
  return "of" in rule;
}
