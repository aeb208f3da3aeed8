import { encodeLine, TableDigest, type ServiceView } from "@kip/network-view";
import { arrange } from "./arrange.ts";
import { familiesOf, type Family } from "./family.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, RuleSetBuilder, TableChange, type RuleSet } from "./rule-set.ts";
import { balanceChain, balancedCount, balanceRules, serviceRules } from "./service-rules.ts";
import { emptyTable, tableHooks } from "./service-table.ts";
import { staleFlows, type StaleFlows } from "./connections/stale-flows.ts";

/** Services that have changed; undefined for those that are gone. */
export type ServiceChanges = ReadonlyMap<string, ServiceView | undefined>;

/** Two tables: a new one is filled while the other one is in use. */
export const serviceTables = ["kip_services_a", "kip_services_b"] as const;

/** The name of a table of Services. */
export type ServiceTable = (typeof serviceTables)[number];

/**
 * About how much text goes to nft at once, unless one Service has more. It takes about 50 times as much memory, and a cell may be
 * small.
 */
const batchCharacters = 256 * 1024;

/**
 * The Services of this machine and the commands that bring them into the kernel. Does no I/O: the commands are in force
 * if nft took them, and are not taken again.
 */
export class Services {
  readonly #place: RoutingPlace;
  readonly #families: readonly Family[];
  /** Each Service as one text: as objects, ten thousand take three times the memory. */
  readonly #views = new Map<string, string>();
  readonly #digest = new TableDigest();
  /** For each family, which shared chains there are. They stay: there are as many as there are numbers of endpoints. */
  #balanced = new Map<Family, Set<number>>();
  #table: ServiceTable = serviceTables[0];

  /** @param balanced for which numbers of endpoints the table in force has shared chains already; default none */
  constructor(place: RoutingPlace, balanced: readonly number[] = []) {
    this.#place = place;
    this.#families = familiesOf(place);
    for (const family of this.#families) this.#balanced.set(family, new Set(balanced));
  }

  /** Sums of the Services, to find out what has been missed. */
  get sums(): readonly number[] {
    return this.#digest.sums;
  }

  /** Names of all Services. */
  keys(): Iterable<string> {
    return this.#views.keys();
  }

  /** The table that changes go to: that of the last {@link Services.rebuild}. */
  get table(): ServiceTable {
    return this.#table;
  }

  /** Takes changes. Each text goes to nft as one transaction; a Service is never in two of them. */
  change(changes: ServiceChanges): {
    readonly texts: readonly string[];
    readonly stale: readonly StaleFlows[];
  } {
    const texts: string[] = [];
    const stale: StaleFlows[] = [];
    let batch = this.#batch();
    // What is gone comes first: its addresses may be another one's now.
    for (const [key, next] of [...changes].sort(([, a], [, b]) => Number(!!a) - Number(!!b))) {
      const before = this.#view(key);
      const after = next && arranged(before, next);
      stale.push(...staleFlows(before, after));
      for (const [index, family] of this.#families.entries())
        this.#addChange(batch[index], { family, key, before, after });
      this.#store(key, before, after);
      if (batch.reduce((sum, { size }) => sum + size, 0) < batchCharacters) continue;
      texts.push(textOf(batch));
      batch = this.#batch();
    }
    return { texts: [...texts, textOf(batch)].filter((text) => text !== ""), stale };
  }

  /**
   * Makes the whole table again beside the one that is in use. Each text is a transaction, and the last one replaces the
   * old table.
   *
   * @param inForce the table that is in use, if there is one: it is left as it is until then
   * @param first commands for the first transaction
   */
  *rebuild(inForce: ServiceTable | undefined, first = ""): Generator<string> {
    this.#table = otherTable(inForce ?? serviceTables[0]);
    let batch = first;
    for (const text of this.#tables()) {
      batch += text;
      if (batch.length < batchCharacters) continue;
      yield batch;
      batch = "";
    }
    yield batch + this.#replacement();
  }

  #batch(): readonly TableChange[] {
    return this.#families.map((family) => new TableChange(`${family.ip} ${this.#table}`));
  }

  *#tables(): Generator<string> {
    this.#balanced = new Map();
    for (const family of this.#families)
      yield emptyTable(`${family.ip} ${this.#table}`, family, this.#place);
    for (const family of this.#families) yield* this.#fill(family);
  }

  /** Puts the new table in force in place of the old one, which may not be there. */
  #replacement(): string {
    const old = otherTable(this.#table);
    const texts = this.#families.map((family) => {
      const hooks = tableHooks(`${family.ip} ${this.#table}`, family, this.#place);
      return `${hooks}add table ${family.ip} ${old}\ndelete table ${family.ip} ${old}\n`;
    });
    return texts.join("");
  }

  *#fill(family: Family): Generator<string> {
    let batch = new TableChange(`${family.ip} ${this.#table}`);
    for (const key of this.#views.keys()) {
      this.#addChange(batch, { family, key, before: undefined, after: this.#view(key) });
      if (batch.size < batchCharacters) continue;
      yield batch.text();
      batch = new TableChange(`${family.ip} ${this.#table}`);
    }
    if (batch.size > 0) yield batch.text();
  }

  #addChange(
    table: TableChange | undefined,
    change: {
      readonly family: Family;
      readonly key: string;
      readonly before: ServiceView | undefined;
      readonly after: ServiceView | undefined;
    },
  ): void {
    const { family, key } = change;
    const place = this.#place;
    const rules = (view: ServiceView | undefined): RuleSet =>
      view ? serviceRules({ key, view, family, place }) : emptyRuleSet;
    const after = rules(change.after);
    table?.add(emptyRuleSet, this.#missingChains(after, family));
    table?.add(rules(change.before), after);
  }

  /** Shared chains that the elements lead to and that are not there yet. */
  #missingChains(rules: RuleSet, family: Family): RuleSet {
    const there = this.#balanced.get(family) ?? new Set();
    this.#balanced.set(family, there);
    const missing = new RuleSetBuilder();
    for (const value of rules.elements.values()) {
      const count = balancedCount(value);
      if (count === undefined || there.has(count)) continue;
      there.add(count);
      missing.chains.set(balanceChain(count), balanceRules(count, family));
    }
    return missing;
  }

  #view(key: string): ServiceView | undefined {
    const text = this.#views.get(key);
    // Written by #store.
    return text === undefined ? undefined : (JSON.parse(text) as ServiceView);
  }

  #store(key: string, before: ServiceView | undefined, after: ServiceView | undefined): void {
    this.#digest.change(key, lineOf(key, before), lineOf(key, after));
    if (after) this.#views.set(key, JSON.stringify(after));
    else this.#views.delete(key);
  }
}

function otherTable(name: ServiceTable): ServiceTable {
  return name === serviceTables[0] ? serviceTables[1] : serviceTables[0];
}

function textOf(tables: readonly TableChange[]): string {
  return tables.map((table) => table.text()).join("");
}

/** The line as kip writes it, whatever the order of endpoints is here. */
function lineOf(key: string, view: ServiceView | undefined): string | undefined {
  if (!view) return undefined;
  const sorted = mapEndpoints(view, (list) => [...list].sort());
  return encodeLine({ kind: "service", key, view: sorted });
}

function arranged(before: ServiceView | undefined, next: ServiceView): ServiceView {
  if (!before) return next;
  return mapEndpoints(next, (list, index, field) => {
    const port = next.ports[index];
    const old = before.ports.find((p) => p.port === port?.port && p.protocol === port.protocol);
    return arrange(old?.[field] ?? [], list);
  });
}

function mapEndpoints(
  view: ServiceView,
  change: (
    list: readonly string[],
    index: number,
    field: "endpoints" | "localEndpoints",
  ) => readonly string[],
): ServiceView {
  const ports = view.ports.map((port, index) => ({
    ...port,
    endpoints: change(port.endpoints, index, "endpoints"),
    ...(port.localEndpoints && {
      localEndpoints: change(port.localEndpoints, index, "localEndpoints"),
    }),
  }));
  return { ...view, ports };
}
