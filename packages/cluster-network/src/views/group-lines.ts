import { encodeLine, limits } from "@kip/network-view";
import type { GroupChange } from "../policies/group.ts";
import { VersionedTable } from "./versioned-table.ts";

const nothing = Buffer.alloc(0);

/** How many differences to the current state are cached. Each may be as large as the group, and slow cells may all have different versions. */
const maxDifferences = 8;

/**
 * Up to this size, a difference is sent as such even if the whole group is smaller. It is also how many changes of a small group are
 * remembered. Users decide how many groups there are, and a changed label of one pod may change all of them.
 */
const fewAddresses = 64;

/** One group of addresses as encoded lines. Lines for several cells are encoded only once. */
export class GroupLines {
  readonly #name: string;
  readonly #table = new VersionedTable<true>(fewAddresses);
  #all: Buffer | undefined;
  /** Cached differences to the current state, by the version of the last change that a cell has. */
  readonly #differences = new Map<number, Buffer>();
  /** The version of the last change. */
  #changedAt = 0;

  constructor(name: string, addresses: readonly string[]) {
    this.#name = name;
    for (const address of addresses) this.#table.set(address, true, 0);
  }

  change({ add, remove }: GroupChange, version: number): void {
    for (const address of add) this.#table.set(address, true, version);
    for (const address of remove) this.#table.set(address, undefined, version);
    this.#all = undefined;
    this.#differences.clear();
    this.#changedAt = version;
  }

  /** The whole group, for a cell that does not have it. */
  all(): Buffer {
    const add = (): readonly string[] => [...this.#table.entries()].map(([address]) => address);
    return (this.#all ??= this.#encode("reset", add(), []));
  }

  /**
   * Lines for a cell with an earlier version. Empty if nothing has changed since. Otherwise a difference, which may include some older
   * changes, or the whole group if that is shorter or the changes are no longer remembered.
   */
  since(version: number): Buffer {
    // The version also rises by other changes. Caching a difference for each of them would grow until the next change of the group.
    if (version >= this.#changedAt) return nothing;
    const last = this.#table.lastChange(version);
    const known = this.#differences.get(last);
    if (known) return known;
    if (this.#differences.size >= maxDifferences) return this.#largerThan(last) ?? this.all();
    const changes = this.#table.since(last);
    if (!changes || changes.size > Math.max(fewAddresses, this.#table.size)) return this.all();
    const add = [...changes].flatMap(([address, isIn]) => (isIn ? [address] : []));
    const remove = [...changes].flatMap(([address, isIn]) => (isIn ? [] : [address]));
    const difference = this.#encode("change", add, remove);
    this.#differences.set(last, difference);
    return difference;
  }

  /** The smallest known difference that includes all changes after a version. */
  #largerThan(version: number): Buffer | undefined {
    const earlier = [...this.#differences.keys()].filter((each) => each < version);
    return this.#differences.get(Math.max(...earlier));
  }

  /** @param first "reset" if cells should first remove all addresses of the group */
  #encode(first: "reset" | "change", add: readonly string[], remove: readonly string[]): Buffer {
    const lines: string[] = [];
    const most = limits.groupAddresses;
    const least = first === "reset" ? 1 : 0;
    const count = Math.ceil(Math.max(add.length, remove.length, least) / most);
    for (let part = 0; part < count; part++) {
      const slice = (list: readonly string[]) => list.slice(part * most, (part + 1) * most);
      const base = { kind: "group", name: this.#name } as const;
      const change = part === 0 ? first : "change";
      lines.push(encodeLine({ ...base, change, add: slice(add), remove: slice(remove) }));
    }
    return Buffer.from(lines.join(""));
  }
}
