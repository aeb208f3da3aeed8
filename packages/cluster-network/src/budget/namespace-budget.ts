/** What Services or policies take: on each cell, and in kip. */
export interface Cost {
  /** Elements of nftables on each cell; or, where kip itself has the work, what takes as long as so many. */
  readonly elements: number;
  /** Bytes that kip keeps, and sends to cells. */
  readonly bytes: number;
}

/** An object that has a cost. */
interface Entry extends Cost {
  readonly key: string;
  /** The lowest one is the oldest. */
  readonly rank: string;
  isRefused: boolean;
}

/** Objects of one namespace. */
interface Account {
  /** In the order of their age while `isSorted`. */
  entries: Map<string, Entry>;
  isSorted: boolean;
  /** Of all of them, whether they have rules or not. */
  elements: number;
  bytes: number;
  refused: number;
}

/** What a change of costs means for objects. */
export interface Settlement {
  /** Objects that have lost their rules, or get none. */
  readonly refused: readonly string[];
  /** Objects that had no rules, and have room now. */
  readonly admitted: readonly string[];
}

/**
 * Decides which Services or policies have rules, if those of a namespace take more than one namespace may. From the oldest to the youngest,
 * each that fits beside the older ones has rules. Only costs and times of creation decide, so the result is the same after a restart, and
 * a younger object never takes the place of an older one. For a namespace within its limit only sums are kept up to date.
 */
export class NamespaceBudget {
  readonly #most: Cost;
  readonly #accounts = new Map<string, Account>();
  readonly #changed = new Set<string>();

  /** @param most how much one namespace may take */
  constructor(most: Cost) {
    this.#most = most;
  }

  /**
   * Sets what an object takes; undefined if it has no rules anyway.
   *
   * @param key its namespace and name
   * @param created its time of creation, as in the API
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

  /** Whether all objects of a namespace together take more than they may. */
  isExceeded(namespace: string): boolean {
    const { elements = 0, bytes = 0 } = this.#accounts.get(namespace) ?? {};
    return elements > this.#most.elements || bytes > this.#most.bytes;
  }

  /** Whether there was no room for an object at the last {@link NamespaceBudget.settle}. */
  isRefused(key: string): boolean {
    return this.#accounts.get(namespaceOf(key))?.entries.get(key)?.isRefused ?? false;
  }

  /** How many objects of a namespace have no rules. */
  refusedCount(namespace: string): number {
    return this.#accounts.get(namespace)?.refused ?? 0;
  }

  /** Decides again for the namespaces that have changed. */
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
