import type { PolicyView } from "@kip/network-view";
import { ofFamily, type Family } from "./family.ts";
import { groupSet, policyRules } from "./policy-rules.ts";
import { emptyRuleSet, RuleSetBuilder, type RuleSet } from "./rule-set.ts";
import type { RulesChange } from "./service-change.ts";

/** Number of addresses in a part. */
const partAddresses = 1000;

/** The addresses of each group that a policy names, of both families. */
export type Groups = ReadonlyMap<string, ReadonlySet<string>>;

/** The policy of a pod at one time. */
export interface KnownPolicy {
  readonly policy: PolicyView;
  readonly groups: Groups;
}

/**
 * The changes in the table of one family after a change of a pod's policy. Chains and sets come first, then addresses of groups, in parts,
 * because users decide how many addresses there are.
 */
export function* policyChange(
  before: KnownPolicy | undefined,
  after: KnownPolicy | undefined,
  family: Family,
): Generator<RulesChange> {
  const rules = (known: KnownPolicy | undefined): RuleSet =>
    known ? policyRules(known.policy, new Set(known.groups.keys()), family) : emptyRuleSet;
  yield { before: rules(before), after: rules(after), work: 1 };
  for (const [name, addresses] of after?.groups ?? []) {
    const known = before?.groups.get(name) ?? none;
    const elements = (list: readonly string[]): RuleSet => {
      const rules = new RuleSetBuilder();
      for (const address of ofFamily(list, family)) rules.element(groupSet(name), address);
      return rules;
    };
    for (const gone of inParts(known, addresses))
      yield { before: elements(gone), after: emptyRuleSet, work: partAddresses };
    for (const added of inParts(addresses, known))
      yield { before: emptyRuleSet, after: elements(added), work: partAddresses };
  }
}

const none: ReadonlySet<string> = new Set();

/** The addresses that are not in `others`. Yields a list for each {@link partAddresses} addresses that were checked. */
function* inParts(
  addresses: ReadonlySet<string>,
  others: ReadonlySet<string>,
): Generator<readonly string[]> {
  let part: string[] = [];
  let looked = 0;
  for (const address of addresses) {
    if (!others.has(address)) part.push(address);
    if (++looked % partAddresses > 0) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}
