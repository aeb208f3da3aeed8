import type { GroupLine } from "@kip/network-view";
import type { Groups } from "./policy-change.ts";

/** Addresses that a change may add to groups, or take from them, by group. */
export type ChangedAddresses = ReadonlyMap<string, ReadonlySet<string> | "all">;

/** What lines of a change are about. */
export function changedAddresses(lines: readonly GroupLine[]): ChangedAddresses {
  const changed = new Map<string, Set<string> | "all">();
  for (const line of lines) {
    const known = changed.get(line.name) ?? new Set();
    if (line.change !== "change" || known === "all") {
      changed.set(line.name, "all");
      continue;
    }
    for (const address of [...line.add, ...line.remove]) known.add(address);
    changed.set(line.name, known);
  }
  return changed;
}

/**
 * All groups with those of their addresses that may change: two states of this part differ as those of the whole do. A group may have very
 * many addresses, of which one changes. They stay as they are when the groups change.
 */
export function partOf(groups: Groups, changed: ChangedAddresses): Groups {
  return new Map(
    [...groups].map(([name, addresses]) => {
      const part = changed.get(name) ?? [];
      if (part === "all") return [name, new Set(addresses)];
      return [name, new Set([...part].filter((address) => addresses.has(address)))];
    }),
  );
}
