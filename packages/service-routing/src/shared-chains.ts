import type { Family } from "./family.ts";
import { emptyRuleSet, RuleSetBuilder, type RuleSet } from "./rule-set.ts";
import { balanceChain, balancedCount, balanceRules } from "./service-rules.ts";

/** How many unused shared chains are kept, for Services whose number of endpoints changes often. */
const defaultMaxUnused = 64;

/**
 * The shared chains in the table of one family: one for each number of endpoints that any Service has. Nft reads all chains for each change, so
 * unused chains are removed, all together when there are many.
 */
export class SharedChains {
  readonly #family: Family;
  readonly #maxUnused: number;
  /** For each number of endpoints, how many elements refer to the chain. 0 if the chain exists and is unused. */
  readonly #uses = new Map<number, number>();

  /**
   * @param there numbers of endpoints for which chains already exist
   * @param maxUnused how many unused chains are kept. Default 64
   */
  constructor(family: Family, there: readonly number[], maxUnused: number = defaultMaxUnused) {
    this.#family = family;
    this.#maxUnused = maxUnused;
    for (const count of there) this.#uses.set(count, 0);
  }

  /** Counts the references of replaced elements. @returns chains that the new elements refer to and that do not exist yet */
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

  /** Chains to remove after all replacements: all unused ones, or none if there are few. */
  takeUnused(): RuleSet {
    const unused = [...this.#uses].filter(([, uses]) => uses === 0);
    if (unused.length <= this.#maxUnused) return emptyRuleSet;
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
