import { limits } from "@kip/network-view";
import type { GroupSelector, PortName } from "./group-selector.ts";
import type { GroupNames } from "./pod-policy.ts";
import { fairShare, maxNumbersOfList, type PortNumbers } from "./port-numbers.ts";

/** A named port of the pods that a selector matches. */
export interface PodsPort {
  readonly selector: GroupSelector;
  readonly port: PortName;
}

/** Egress rules for named ports. The number of such a port may differ for each destination pod. */
export interface NamedRules<Rule> {
  readonly ports: readonly PodsPort[];
  /** Makes the rules, given the numbers of each port. */
  readonly of: (numbersOf: (port: PodsPort) => PortNumbers) => readonly Rule[];
}

/** A rule, or rules for named ports, with the name of their policy. */
export interface RuleDraft<Rule> {
  readonly title: string;
  readonly rule: Rule | NamedRules<Rule>;
}

/**
 * One list of rules of a pod, with numbers in place of named ports. If there are too many numbers in total, {@link fairShare} decides how
 * many each port gets. So users who create pods with many numbers cannot close the direction, and ports with few numbers keep all of them.
 */
export function withNumbers<Rule extends object>(
  drafts: readonly RuleDraft<Rule>[],
  groups: GroupNames,
): readonly { readonly title: string; readonly rule: Rule }[] {
  const ports = drafts.flatMap(({ rule }) => (isNamed(rule) ? rule.ports : []));
  const known = new Map(ports.map((each) => [each, groups.portNumbers(each.selector, each.port)]));
  const counts = [...known.values()].flatMap(({ numbers }) => numbers.length || []);
  // Each named port may need another rule, which closes the numbers without a rule.
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
