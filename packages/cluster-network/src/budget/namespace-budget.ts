/** The cost of Services or policies: on each cell, and in kip. */
export interface Cost {
  /** Number of nftables elements on each cell. For work that kip does itself: an equivalent number. */
  readonly elements: number;
  /** Bytes that kip stores and sends to cells. */
  readonly bytes: number;
}

/** An object that has a cost. */
interface Entry extends Cost {
  readonly key: string;
  /** For comparison: the object with the lowest rank is the oldest. */
  readonly rank: string;
  isRefused: boolean;
}

/** Objects of one namespace. */
interface Account {
  /** In the order of their age while `isSorted`. */
  entries: Map<string, Entry>;
  isSorted: boolean;
  /** The sum for all objects, with or without rules. */
  elements: number;
  bytes: number;
  refused: number;
}

/** The objects for which a decision has changed. */
export interface Settlement {
  /** Objects that lose their rules, or get none. */
  readonly refused: readonly string[];
  /** Objects that had no rules, and fit now. */
  readonly admitted: readonly string[];
}

/**
 * Decides which Services or policies get rules, if those of a namespace exceed its budget. Objects are considered from the oldest to the
 * youngest. An object gets rules if it fits beside the older ones. Only costs and creation times count. So the result is the same after a
 * restart, and a younger object never displaces an older one. For a namespace within its budget, only sums are updated.
 */
export class NamespaceBudget {
  readonly #most: Cost;
  readonly #accounts = new Map<string, Account>();
  readonly #changed = new Set<string>();

  /** @param most the budget of each namespace */
  constructor(most: Cost) {
    this.#most = most;
  }

  /**
   * Sets the cost of an object. Undefined if it has no rules anyway.
   *
   * @param key its namespace and name
   * @param created its creation time, as in the API
   */
  set(key: string, created: string, cost: Cost | undefined): void {
    const namespace = namespaceOf(key);
    const account = this.#accounts.get(namespace) ?? newAccount();
    const before = account.entries.get(key);
    if (!before && !cost) return;
    account.elements += (cost?.elements ?? 0) - (before?.elements ?? 0);
    account.bytes += (cost?.bytes ?? 0) - (before?.bytes ?? 0);
    if (cost) replace(account, { ...cost, key, rank: `${created} ${key}` });
    else remove(account, key);
    this.#accounts.set(namespace, account);
    this.#changed.add(namespace);
  }

  /** Whether the objects of a namespace exceed its budget in total. */
  isExceeded(namespace: string): boolean {
    const { elements = 0, bytes = 0 } = this.#accounts.get(namespace) ?? {};
    return elements > this.#most.elements || bytes > this.#most.bytes;
  }

  /** Whether an object was refused at the last {@link NamespaceBudget.settle}. */
  isRefused(key: string): boolean {
    return this.#accounts.get(namespaceOf(key))?.entries.get(key)?.isRefused ?? false;
  }

  /** Number of objects of a namespace that were refused. */
  refusedCount(namespace: string): number {
    return this.#accounts.get(namespace)?.refused ?? 0;
  }

  /** Decides again for the namespaces whose costs have changed. */
  settle(): Settlement {
    const refused: string[] = [];
    const admitted: string[] = [];
    for (const namespace of this.#changed) {
      const account = this.#accounts.get(namespace);
      if (!account) continue;
      if (account.entries.size === 0) this.#accounts.delete(namespace);
      else if (account.refused > 0 || this.isExceeded(namespace))
        for (const { key, isRefused } of this.#share(account))
          (isRefused ? refused : admitted).push(key);
    }
    this.#changed.clear();
    return { refused, admitted };
  }

  /** Decides for one namespace. @returns entries for which the decision has changed */
  #share(account: Account): readonly Entry[] {
    if (!account.isSorted) {
      // Nearly sorted, if it has been sorted before.
      const sorted = [...account.entries.values()].sort((a, b) => (a.rank < b.rank ? -1 : 1));
      account.entries = new Map(sorted.map((entry) => [entry.key, entry]));
      account.isSorted = true;
    }
    const flipped: Entry[] = [];
    let elements = 0;
    let bytes = 0;
    account.refused = 0;
    for (const entry of account.entries.values()) {
      const isRefused =
        elements + entry.elements > this.#most.elements || bytes + entry.bytes > this.#most.bytes;
      if (isRefused) account.refused += 1;
      else {
        elements += entry.elements;
        bytes += entry.bytes;
      }
      if (isRefused !== entry.isRefused) flipped.push(entry);
      entry.isRefused = isRefused;
    }
    return flipped;
  }
}

/** The namespace of an object, by its namespace and name. */
export function namespaceOf(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

function remove(account: Account, key: string): void {
  if (account.entries.get(key)?.isRefused === true) account.refused -= 1;
  account.entries.delete(key);
}

function replace(account: Account, entry: Omit<Entry, "isRefused">): void {
  const { key, rank } = entry;
  const before = account.entries.get(key);
  if (before?.rank !== rank) {
    account.entries.delete(key);
    account.isSorted = false;
  }
  account.entries.set(key, { ...entry, isRefused: before?.isRefused ?? false });
}

function newAccount(): Account {
  return { entries: new Map(), isSorted: true, elements: 0, bytes: 0, refused: 0 };
}
