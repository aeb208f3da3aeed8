import type { GroupLine } from "@kip/network-view";
import type { Groups } from "./policy-change.ts";

/** Addresses that a change may add to a group or remove from it, by group. */
export type ChangedAddresses = ReadonlyMap<string, ReadonlySet<string> | "all">;

/** The addresses in the lines of a change. */
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
 * All groups, but only with those of their addresses that a change contains. The parts before and after the change differ by the same
 * addresses as the whole groups. They are smaller, because a group may have very many addresses of which one changes. The result is a copy.
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
