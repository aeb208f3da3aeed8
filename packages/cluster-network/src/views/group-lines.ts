import { encodeLine, limits } from "@kip/network-view";
import type { GroupChange } from "../policies/group.ts";
import { VersionedTable } from "./versioned-table.ts";

const nothing = Buffer.alloc(0);

/**
 * So many differences of one state of a group are kept. Each may have as much as the group, and cells that take changes slowly may all be
 * at versions of their own.
 */
const mostDifferences = 8;

/**
 * A difference of so many addresses is small, whatever the whole group takes. No more changes of a small group are remembered: users decide
 * how many groups there are, and a pod that has a label and loses it may change all of them.
 */
const fewAddresses = 64;

/** One group of addresses as lines; what several cells need is encoded once. */
export class GroupLines {
  readonly #name: string;
  readonly #table = new VersionedTable<true>(fewAddresses);
  #all: Buffer | undefined;
  /** By the version of the last change that a cell has. */
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

  /** The group as it is, for a cell that does not have it. */
  all(): Buffer {
    const add = (): readonly string[] => [...this.#table.entries()].map(([address]) => address);
    return (this.#all ??= this.#encode("reset", add(), []));
  }

  /** What has changed after a version, and maybe some that had changed before: empty, or the whole group if that is less or not remembered. */
  since(version: number): Buffer {
    // Versions rise with every change of the cluster: what is remembered of each would never be forgotten.
    if (version >= this.#changedAt) return nothing;
    const last = this.#table.lastChange(version);
    const known = this.#differences.get(last);
    if (known) return known;
    if (this.#differences.size >= mostDifferences) return this.#largerThan(last) ?? this.all();
    const changes = this.#table.since(last);
    if (!changes || changes.size > Math.max(fewAddresses, this.#table.size)) return this.all();
    const add = [...changes].flatMap(([address, isIn]) => (isIn ? [address] : []));
    const remove = [...changes].flatMap(([address, isIn]) => (isIn ? [] : [address]));
    const difference = this.#encode("change", add, remove);
    this.#differences.set(last, difference);
    return difference;
  }

  /** The least of the differences that has all that has changed after a version. */
  #largerThan(version: number): Buffer | undefined {
    const earlier = [...this.#differences.keys()].filter((each) => each < version);
    return this.#differences.get(Math.max(...earlier));
  }

  /** @param first whether the group is to be forgotten first */
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
