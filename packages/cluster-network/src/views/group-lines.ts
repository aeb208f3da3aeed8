import { encodeLine, limits } from "@kip/network-view";
import type { GroupChange } from "../policies/group.ts";
import { VersionedTable } from "./versioned-table.ts";

const nothing = Buffer.alloc(0);

/** One group of addresses as lines; what several cells need is encoded once. */
export class GroupLines {
  readonly #name: string;
  readonly #table = new VersionedTable<true>();
  readonly #encoded = new Map<number | "all", Buffer>();
  /** The version of the last change. */
  #changedAt = 0;

  constructor(name: string, addresses: readonly string[]) {
    this.#name = name;
    for (const address of addresses) this.#table.set(address, true, 0);
  }

  change({ add, remove }: GroupChange, version: number): void {
    for (const address of add) this.#table.set(address, true, version);
    for (const address of remove) this.#table.set(address, undefined, version);
    this.#encoded.clear();
    this.#changedAt = version;
  }

  /** The group as it is, for a cell that does not have it. */
  all(): Buffer {
    return this.#encode(
      "all",
      [...this.#table.entries()].map(([address]) => address),
      [],
    );
  }

  /** What has changed after a version: empty, or the whole group if that is not remembered. */
  since(version: number): Buffer {
    // Versions rise with every change of the cluster: what is remembered of each would never be forgotten.
    if (version >= this.#changedAt) return nothing;
    const known = this.#encoded.get(version);
    if (known) return known;
    const changes = this.#table.since(version);
    if (!changes) return this.all();
    const add = [...changes].flatMap(([address, isIn]) => (isIn ? [address] : []));
    const remove = [...changes].flatMap(([address, isIn]) => (isIn ? [] : [address]));
    return this.#encode(version, add, remove);
  }

  #encode(key: number | "all", add: readonly string[], remove: readonly string[]): Buffer {
    const known = this.#encoded.get(key);
    if (known) return known;
    const lines: string[] = [];
    const most = limits.groupAddresses;
    const count = Math.ceil(Math.max(add.length, remove.length, key === "all" ? 1 : 0) / most);
    for (let part = 0; part < count; part++) {
      const slice = (list: readonly string[]) => list.slice(part * most, (part + 1) * most);
      const change = key === "all" && part === 0 ? "reset" : "change";
      const base = { kind: "group", name: this.#name, change } as const;
      lines.push(encodeLine({ ...base, add: slice(add), remove: slice(remove) }));
    }
    const buffer = Buffer.from(lines.join(""));
    this.#encoded.set(key, buffer);
    return buffer;
  }
}
