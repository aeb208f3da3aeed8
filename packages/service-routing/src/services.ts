import { encodeLine, TableDigest, type ServiceView } from "@kip/network-view";
import { arrange } from "./arrange.ts";
import { familiesOf, type Family } from "./family.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, RuleSetBuilder, TableChange, type RuleSet } from "./rule-set.ts";
import { claimOf, claimsOf, ServiceClaims } from "./service-claims.ts";
import { balanceChain, balancedCount, balanceRules, serviceRules } from "./service-rules.ts";
import { emptyTable, tableHooks } from "./service-table.ts";
import { staleFlows, type ClaimedService, type StaleFlows } from "./connections/stale-flows.ts";

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
  readonly #claims = new ServiceClaims();
  /** Of the few Services that have lost something to another one: what. */
  readonly #lost = new Map<string, ReadonlySet<string>>();
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
    for (const [key, next] of this.#inOrder(changes)) {
      const before = this.#known(key);
      const after = { view: next && arranged(before.view, next), lost: this.#lostOf(key, next) };
      for (const flows of staleFlows(before, after)) stale.push(flows);
      for (const [index, family] of this.#families.entries())
        this.#addChange(batch[index], { family, key, before, after });
      this.#store(key, before.view, after);
      if (batch.reduce((sum, { size }) => sum + size, 0) < batchCharacters) continue;
      texts.push(textOf(batch));
      batch = this.#batch();
    }
    return { texts: [...texts, textOf(batch)].filter((text) => text !== ""), stale };
  }

  /**
   * Makes the whole table again beside the one that is in use. Each text is a transaction; the last but one puts the new
   * table in force, the last one removes the old one.
   *
   * For a moment both have hooks. The kernel asks chains of one priority one after the other, the newest first: were both
   * changed at once, a packet could pass the new chain before the change and the old one after it, and be translated by
   * neither.
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
    yield batch + this.#hooks();
    yield this.#removalOfOld();
  }

  /**
   * The changes, and the Services that get or lose something by them. What gives something up comes first: it may be another
   * one's now.
   */
  #inOrder(changes: ServiceChanges): readonly (readonly [string, ServiceView | undefined])[] {
    const affected = new Set<string>();
    const giving = new Set<string>();
    for (const [key, next] of changes) {
      const [before, after] = [claimsOf(this.#view(key)), claimsOf(next)];
      if ([...before].some((claim) => !after.has(claim))) giving.add(key);
      for (const other of this.#claims.replace(key, before, after)) affected.add(other);
    }
    const others = [...affected].filter((key) => !changes.has(key));
    for (const key of others) if (this.#lostOf(key, this.#view(key)).size > 0) giving.add(key);
    const all = [...changes, ...others.map((key) => [key, this.#view(key)] as const)];
    return all.sort(([a], [b]) => Number(giving.has(b)) - Number(giving.has(a)));
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

  #hooks(): string {
    return this.#families
      .map((family) => tableHooks(`${family.ip} ${this.#table}`, family, this.#place))
      .join("");
  }

  /** Removes the other table, which may not be there. */
  #removalOfOld(): string {
    const old = otherTable(this.#table);
    return this.#families
      .map(({ ip }) => `add table ${ip} ${old}\ndelete table ${ip} ${old}\n`)
      .join("");
  }

  *#fill(family: Family): Generator<string> {
    let batch = new TableChange(`${family.ip} ${this.#table}`);
    for (const key of this.#views.keys()) {
      this.#addChange(batch, { family, key, before: nothing, after: this.#known(key) });
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
      readonly before: ClaimedService;
      readonly after: ClaimedService;
    },
  ): void {
    const { family, key } = change;
    const place = this.#place;
    const rules = ({ view, lost }: ClaimedService): RuleSet =>
      view ? without(serviceRules({ key, view, family, place }), lost) : emptyRuleSet;
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

  #known(key: string): ClaimedService {
    return { view: this.#view(key), lost: this.#lost.get(key) ?? nothing.lost };
  }

  #lostOf(key: string, view: ServiceView | undefined): ReadonlySet<string> {
    return this.#claims.lost(key, claimsOf(view));
  }

  #store(key: string, before: ServiceView | undefined, { view, lost }: ClaimedService): void {
    this.#digest.change(key, lineOf(key, before), lineOf(key, view));
    if (view) this.#views.set(key, JSON.stringify(view));
    else this.#views.delete(key);
    if (lost.size > 0) this.#lost.set(key, lost);
    else this.#lost.delete(key);
  }
}

const nothing: ClaimedService = { view: undefined, lost: new Set() };

/** The rules without elements that another Service has. */
function without(rules: RuleSet, lost: ReadonlySet<string>): RuleSet {
  if (lost.size === 0) return rules;
  const elements = [...rules.elements].filter(([element]) => !lost.has(claimOf(element)));
  return { ...rules, elements: new Map(elements) };
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
