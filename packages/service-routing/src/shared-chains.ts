import type { Family } from "./family.ts";
import { emptyRuleSet, RuleSetBuilder, type RuleSet } from "./rule-set.ts";
import { balanceChain, balancedCount, balanceRules } from "./service-rules.ts";

/** How many shared chains may be there that no element leads to: a Service whose number of endpoints goes up and down needs no new ones. */
const defaultMostUnused = 64;

/**
 * The shared chains of the table of one family, of which there is one for each number of endpoints that a Service has. Nft looks at all
 * chains for each change, so those that nothing leads to are removed together when there are many.
 */
export class SharedChains {
  readonly #family: Family;
  readonly #mostUnused: number;
  /** How many elements lead to the chain for a number of endpoints; 0 if it is there all the same. */
  readonly #uses = new Map<number, number>();

  /**
   * @param there for which numbers of endpoints there are chains already
   * @param mostUnused how many may be there that no element leads to; default 64
   */
  constructor(family: Family, there: readonly number[], mostUnused: number = defaultMostUnused) {
    this.#family = family;
    this.#mostUnused = mostUnused;
    for (const count of there) this.#uses.set(count, 0);
  }

  /** Takes elements that are replaced. @returns the chains that the new ones lead to and that are not there yet */
  replace(before: RuleSet, after: RuleSet): RuleSet {
    for (const count of countsOf(before)) this.#uses.set(count, (this.#uses.get(count) ?? 0) - 1);
    const missing = new RuleSetBuilder();
    for (const count of countsOf(after)) {
      const uses = this.#uses.get(count);
      this.#uses.set(count, (uses ?? 0) + 1);
      if (uses === undefined)
        missing.chains.set(balanceChain(count), balanceRules(count, this.#family));
    }
    return missing;
  }

  /** The chains that are to be removed, behind all that was replaced: none, or all that no element leads to. */
  takeUnused(): RuleSet {
    const unused = [...this.#uses].filter(([, uses]) => uses === 0);
    if (unused.length <= this.#mostUnused) return emptyRuleSet;
    const rules = new RuleSetBuilder();
    for (const [count] of unused) {
      this.#uses.delete(count);
      rules.chains.set(balanceChain(count), balanceRules(count, this.#family));
    }
    return rules;
  }
}

function* countsOf({ elements }: RuleSet): Generator<number> {
  for (const value of elements.values()) {
    const count = balancedCount(value);
    if (count !== undefined) yield count;
  }
}
