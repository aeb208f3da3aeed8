/**
 * The contents of a table that belong to one Service, or to the policy. A change is the difference between two rule sets. Only the difference
 * is sent to the kernel.
 */
export interface RuleSet {
  /** Values by name of the set or map, a space, and the key. The value is empty in sets. */
  readonly elements: ReadonlyMap<string, string>;
  /** Rules by the name of their chain. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Sets and maps that belong only to this rule set, by name. The definition for a name never changes. */
  readonly sets: ReadonlyMap<string, SetDefinition>;
}

/** The definition of a set or map. */
export interface SetDefinition {
  readonly kind: "set" | "map";
  readonly definition: string;
}

/** Builds a {@link RuleSet}. */
export class RuleSetBuilder implements RuleSet {
  readonly elements = new Map<string, string>();
  readonly chains = new Map<string, readonly string[]>();
  readonly sets = new Map<string, SetDefinition>();

  /** Adds an element to a map, or to a set if there is no value. */
  element(map: string, key: string, value = ""): void {
    this.elements.set(`${map} ${key}`, value);
  }
}

/** An empty rule set. */
export const emptyRuleSet: RuleSet = {
  elements: new Map(),
  chains: new Map(),
  sets: new Map(),
};

/** Collects differences of rule sets in one table, and formats them as one transaction. */
export class TableChange {
  readonly #table: string;
  readonly #gone = new Map<string, string[]>();
  readonly #added = new Map<string, string[]>();
  readonly #newSets: string[] = [];
  readonly #newChains: string[] = [];
  readonly #rules: string[] = [];
  readonly #goneChains: string[] = [];
  readonly #goneSets: string[] = [];
  /** Approximate number of characters of {@link TableChange.text}. */
  size = 0;

  /** @param table its family and name */
  constructor(table: string) {
    this.#table = table;
  }

  /** Adds the difference between two rule sets. */
  add(before: RuleSet, after: RuleSet): void {
    this.#elements(before, after);
    this.#chains(before, after);
    const table = this.#table;
    for (const [name, { kind, definition }] of after.sets)
      if (!before.sets.has(name))
        this.#note(this.#newSets, `add ${kind} ${table} ${name} { ${definition} }`);
    for (const [name, { kind }] of before.sets)
      if (!after.sets.has(name)) this.#note(this.#goneSets, `delete ${kind} ${table} ${name}`);
  }

  /** The commands as one transaction. Empty if nothing has changed. */
  text(): string {
    return this.changes() + this.removals();
  }

  /** The commands without {@link TableChange.removals}. Their order makes sure that no command refers to something that does not exist. */
  changes(): string {
    const table = this.#table;
    return linesOf([
      ...elementLines("delete", table, this.#gone),
      ...this.#newSets,
      ...this.#newChains.map((chain) => `add chain ${table} ${chain}`),
      ...this.#rules,
      ...elementLines("add", table, this.#added),
      ...this.#goneChains.map((chain) => `flush chain ${table} ${chain}`),
      ...this.#goneChains.map((chain) => `delete chain ${table} ${chain}`),
    ]);
  }

  /**
   * Commands that remove unused sets with their elements. A packet that is still evaluated by the old rules uses the current contents of sets.
   * If a missing element could let the packet pass, run this as a later transaction.
   */
  removals(): string {
    return linesOf(this.#goneSets);
  }

  #elements(before: RuleSet, after: RuleSet): void {
    const isGone = (set: string): boolean => before.sets.has(set) && !after.sets.has(set);
    for (const [element, value] of before.elements)
      if (after.elements.get(element) !== value && !isGone(setOf(element)))
        this.#element(this.#gone, element, "");
    for (const [element, value] of after.elements)
      if (before.elements.get(element) !== value) this.#element(this.#added, element, value);
  }

  #element(lists: Map<string, string[]>, element: string, value: string): void {
    const map = setOf(element);
    const key = element.slice(map.length + 1);
    const list = lists.get(map) ?? [];
    lists.set(map, list);
    this.#note(list, value === "" ? key : `${key} : ${value}`);
  }

  #chains(before: RuleSet, after: RuleSet): void {
    const table = this.#table;
    for (const [name, rules] of after.chains) {
      const old = before.chains.get(name);
      if (old && old.length === rules.length && old.every((rule, i) => rule === rules[i])) continue;
      if (old) this.#note(this.#rules, `flush chain ${table} ${name}`);
      else this.#note(this.#newChains, name);
      for (const rule of rules) this.#note(this.#rules, `add rule ${table} ${name} ${rule}`);
    }
    for (const name of before.chains.keys())
      if (!after.chains.has(name)) this.#note(this.#goneChains, name);
  }

  #note(list: string[], text: string): void {
    list.push(text);
    this.size += text.length + 2;
  }
}

/** The set or map that an element is in. */
function setOf(element: string): string {
  return element.slice(0, element.indexOf(" "));
}

function linesOf(commands: readonly string[]): string {
  return commands.map((command) => `${command}\n`).join("");
}

function elementLines(
  verb: "add" | "delete",
  table: string,
  lists: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  return [...lists].map(([map, list]) => `${verb} element ${table} ${map} { ${list.join(", ")} }`);
}
