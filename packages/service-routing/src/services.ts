import {
  bucketCount,
  bucketOf,
  encodeLine,
  TableDigest,
  type ServiceView,
} from "@kip/network-view";
import { clientMapsOf, type ClientMap } from "./affinity-rules.ts";
import { arranged, withSortedEndpoints } from "./arrange.ts";
import { familiesOf, type Family } from "./family.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, TableChange, type RuleSet } from "./rule-set.ts";
import { changedRules, workOf } from "./service-change.ts";
import { claimsOf, ServiceClaims } from "./service-claims.ts";
import { emptyTable, tableHooks } from "./service-table.ts";
import { SharedChains } from "./shared-chains.ts";
import { headOfText, textOfView, viewOfText } from "./view-text.ts";
import {
  staleFlows,
  type ClaimedService,
  type FlowTarget,
  type StaleFlows,
} from "./connections/stale-flows.ts";

/** Changed Services by name. Undefined for deleted ones. */
export type ServiceChanges = ReadonlyMap<string, ServiceView | undefined>;

/** The commands of a change. */
export interface ChangeTexts {
  /** One transaction each. */
  readonly texts: readonly string[];
  /** Flows that the kernel must delete once the commands are in force. */
  readonly stale: readonly StaleFlows[];
}

/** The names of the table of Services. They are used in turn, because a new table is filled while the old one is in use. */
export const serviceTables = ["kip_services_a", "kip_services_b"] as const;

/** The name of a table of Services. */
export type ServiceTable = (typeof serviceTables)[number];

/** Approximate number of characters for one run of nft, unless one Service has more. Nft takes about 50 times as much memory, and a cell may be small. */
const batchCharacters = 256 * 1024;

/** The Services on this machine, and the commands that put them in force. Does no I/O. Assumes that the caller runs each command once. */
export class Services {
  readonly #place: RoutingPlace;
  readonly #families: readonly Family[];
  /** Each Service in the format of `textOfView`. */
  readonly #views = new Map<string, string>();
  /** Names of the Services of each bucket. */
  readonly #buckets = Array.from({ length: bucketCount }, () => new Set<string>());
  readonly #digest = new TableDigest();
  readonly #claims = new ServiceClaims();
  /** Claims that a Service has lost to another one. Few Services have any. */
  readonly #lost = new Map<string, ReadonlySet<string>>();
  #shared: ReadonlyMap<Family, SharedChains>;
  #table: ServiceTable = serviceTables[0];
  #clientMaps: ClientMap[] = [];

  readonly #partCharacters: number;
  readonly #unusedChains: number | undefined;

  /**
   * @param balanced numbers of endpoints for which the table in force already has shared chains. Default none
   * @param partCharacters the length at which a text ends and the next one begins, 1 or more. Default 256 Ki
   * @param unusedChains how many unused shared chains are kept. Default as in {@link SharedChains}
   */
  constructor(
    place: RoutingPlace,
    balanced: readonly number[] = [],
    partCharacters: number = batchCharacters,
    unusedChains?: number,
  ) {
    this.#place = place;
    this.#partCharacters = partCharacters;
    this.#unusedChains = unusedChains;
    this.#families = familiesOf(place);
    this.#shared = this.#sharedChains(balanced);
  }

  /** Checksums of the Services by bucket, to find missing changes. */
  get sums(): readonly number[] {
    return this.#digest.sums;
  }

  /** Names of the Services of a bucket; see `bucketOf`. */
  keysOf(bucket: number): Iterable<string> {
    return this.#buckets[bucket] ?? none;
  }

  /** The table that changes are written to: that of the last {@link Services.fill}. */
  get table(): ServiceTable {
    return this.#table;
  }

  /** The maps of clients in the table of the last {@link Services.fill}. */
  get clientMaps(): readonly ClientMap[] {
    return this.#clientMaps;
  }

  /**
   * Applies changes. Each text is one transaction of nft. A Service is only in one of them. The exception is a Service that releases one claim,
   * and gets another one that a Service of the same change releases.
   *
   * A step handles at most one port of a Service in one family, or reads or writes one Service. It yields its work, as a number of endpoints
   * and addresses read.
   *
   * @param isPending see {@link staleFlows}
   */
  *change(
    changes: ServiceChanges,
    isPending?: (to: FlowTarget) => boolean,
  ): Generator<number, ChangeTexts> {
    const texts: string[] = [];
    const stale: StaleFlows[] = [];
    let batch = this.#batch();
    for (const { key, next, without } of yield* this.#orderedSteps(changes)) {
      const before = this.#known(key);
      const work = workOf(before.view) + workOf(next);
      yield work;
      const view = next && (yield* arranged(before.view, next));
      const after = { view, lost: new Set([...this.#lostOf(key, next), ...without]) };
      for (const flows of staleFlows(before, after, isPending))
        stale.push(flows.address === undefined ? this.#atNodes(flows) : flows);
      yield work;
      for (const [index, family] of this.#families.entries())
        for (const step of this.#addChange(() => batch[index], { family, key, before, after }))
          yield step.work;
      this.#store(key, before.view, after);
      yield work;
      if (batch.reduce((sum, { size }) => sum + size, 0) < this.#partCharacters) continue;
      texts.push(textOf(batch));
      batch = this.#batch();
    }
    for (const [index, family] of this.#families.entries())
      batch[index]?.add(this.#shared.get(family)?.takeUnused() ?? emptyRuleSet, emptyRuleSet);
    return { texts: [...texts, textOf(batch)].filter((text) => text !== ""), stale };
  }

  /**
   * Writes the whole table again, beside the one in force. Each text is a transaction. None of them puts the new table in force.
   *
   * @param inForce the table in force, if there is one. It does not change
   * @param first commands for the first transaction
   * @returns texts, and numbers for the work as in {@link Services.change}
   */
  *fill(inForce: ServiceTable | undefined, first = ""): Generator<string | number> {
    this.#table = otherTable(inForce ?? serviceTables[0]);
    this.#clientMaps = [];
    let batch = first;
    for (const text of this.#tables()) {
      if (typeof text === "number") {
        yield text;
        continue;
      }
      batch += text;
      if (batch.length < this.#partCharacters) continue;
      yield batch;
      batch = "";
    }
    yield batch;
  }

  /**
   * Two transactions that must follow those of {@link Services.fill}. The first puts the table in force, and the second removes the old table.
   *
   * Between them both tables have hooks. The kernel runs chains of the same priority one after the other, the newest first. If one transaction
   * did both, a packet could pass the position of the new chain before it, and that of the old chain after it. Then no chain would translate it.
   */
  putInForce(): readonly [hooks: string, removal: string] {
    return [this.#hooks(), this.#removalOfOld()];
  }

  /**
   * Orders the changes, and adds other Services that get or lose a claim because of them. Services that release a claim come first, because
   * another Service of the same change may get it.
   */
  *#orderedSteps(changes: ServiceChanges): Generator<number, readonly Step[]> {
    const affected = new Set<string>();
    const releasing = new Set<string>();
    const released = new Set<string>();
    for (const [key, next] of changes) {
      const head = this.#head(key);
      const [before, after] = [claimsOf(head), claimsOf(next)];
      for (const claim of before) {
        if (after.has(claim)) continue;
        releasing.add(key);
        released.add(claim);
      }
      for (const other of this.#claims.replace(key, before, after)) affected.add(other);
      yield workOf(head) + workOf(next);
    }
    const all = new Map(changes);
    for (const key of affected) {
      if (all.has(key)) continue;
      const view = this.#view(key);
      all.set(key, view);
      yield workOf(view);
    }
    for (const [key, next] of all) {
      for (const claim of this.#lostOf(key, next)) {
        releasing.add(key);
        released.add(claim);
      }
      yield workOf(next);
    }
    const steps: Step[] = [];
    for (const [key, next] of all) {
      steps.push({
        key,
        next,
        without: releasing.has(key) ? this.#gainedClaims(key, next, released) : none,
      });
      yield workOf(next);
    }
    return [
      ...steps.filter(({ key }) => releasing.has(key)),
      ...steps.filter(({ key }) => !releasing.has(key)),
      // A second step for Services that also get a claim which others have released by now.
      ...steps
        .filter(({ without }) => without.size > 0)
        .map((step) => ({ ...step, without: none })),
    ];
  }

  /** Claims that a Service gets because others release them in the same change. */
  #gainedClaims(
    key: string,
    next: ServiceView | undefined,
    released: ReadonlySet<string>,
  ): ReadonlySet<string> {
    const [before, after] = [claimsOf(this.#head(key)), claimsOf(next)];
    const [hadNot, hasNot] = [this.#lost.get(key) ?? none, this.#lostOf(key, next)];
    const isNew = (claim: string): boolean =>
      !hasNot.has(claim) && (!before.has(claim) || hadNot.has(claim));
    return new Set([...after].filter((claim) => released.has(claim) && isNew(claim)));
  }

  /** Flows of a NodePort, without those to a Service that has the address and port, because rules look for such a Service first. */
  #atNodes(flows: StaleFlows): StaleFlows {
    const isOfService = (address: string): boolean =>
      this.#claims.isHeld(`${address} . udp . ${flows.port}`);
    return { ...flows, isOfService };
  }

  #batch(): readonly TableChange[] {
    return this.#families.map((family) => new TableChange(`${family.ip} ${this.#table}`));
  }

  *#tables(): Generator<string | number> {
    this.#shared = this.#sharedChains([]);
    for (const family of this.#families)
      yield emptyTable(`${family.ip} ${this.#table}`, family, this.#place);
    for (const family of this.#families) yield* this.#fillFamily(family);
  }

  #hooks(): string {
    return this.#families
      .map((family) => tableHooks(`${family.ip} ${this.#table}`, family, this.#place))
      .join("");
  }

  /** Commands that remove the other table, if it exists. */
  #removalOfOld(): string {
    const old = otherTable(this.#table);
    return this.#families
      .map(({ ip }) => `add table ${ip} ${old}\ndelete table ${ip} ${old}\n`)
      .join("");
  }

  *#fillFamily(family: Family): Generator<string | number> {
    let batch = new TableChange(`${family.ip} ${this.#table}`);
    for (const key of this.#views.keys()) {
      const after = this.#known(key);
      yield workOf(after.view);
      const change = { family, key, before: nothing, after };
      for (const { rules, work } of this.#addChange(() => batch, change)) {
        this.#clientMaps.push(...clientMapsOf(rules, family, key));
        yield work;
        if (batch.size < this.#partCharacters) continue;
        yield batch.text();
        batch = new TableChange(`${family.ip} ${this.#table}`);
      }
    }
    if (batch.size > 0) yield batch.text();
  }

  /** @param table returns the change that the next part is added to. It may differ for each step */
  *#addChange(
    table: () => TableChange | undefined,
    change: {
      readonly family: Family;
      readonly key: string;
      readonly before: ClaimedService;
      readonly after: ClaimedService;
    },
  ): Generator<{ readonly rules: RuleSet; readonly work: number }> {
    for (const { before, after, work } of changedRules({ ...change, place: this.#place })) {
      const missing = this.#shared.get(change.family)?.replace(before, after);
      table()?.add(emptyRuleSet, missing ?? emptyRuleSet);
      table()?.add(before, after);
      yield { rules: after, work };
    }
  }

  #sharedChains(there: readonly number[]): ReadonlyMap<Family, SharedChains> {
    return new Map(
      this.#families.map((family) => [family, new SharedChains(family, there, this.#unusedChains)]),
    );
  }

  #view(key: string): ServiceView | undefined {
    const text = this.#views.get(key);
    return text === undefined ? undefined : viewOfText(text);
  }

  /** A Service without its endpoints. */
  #head(key: string): ServiceView | undefined {
    const text = this.#views.get(key);
    return text === undefined ? undefined : headOfText(text);
  }

  #known(key: string): ClaimedService {
    return { view: this.#view(key), lost: this.#lost.get(key) ?? nothing.lost };
  }

  #lostOf(key: string, view: ServiceView | undefined): ReadonlySet<string> {
    return this.#claims.lost(key, claimsOf(view));
  }

  #store(key: string, before: ServiceView | undefined, { view, lost }: ClaimedService): void {
    this.#digest.change(key, lineOf(key, before), lineOf(key, view));
    if (view) this.#views.set(key, textOfView(view));
    else this.#views.delete(key);
    if (view && !before) this.#buckets[bucketOf(key)]?.add(key);
    else if (!view) this.#buckets[bucketOf(key)]?.delete(key);
    if (lost.size > 0) this.#lost.set(key, lost);
    else this.#lost.delete(key);
  }
}

/** A step of a change: one Service. */
interface Step {
  readonly key: string;
  readonly next: ServiceView | undefined;
  /** Claims that it gets by a later step. */
  readonly without: ReadonlySet<string>;
}

const none: ReadonlySet<string> = new Set();

const nothing: ClaimedService = { view: undefined, lost: none };

function otherTable(name: ServiceTable): ServiceTable {
  return name === serviceTables[0] ? serviceTables[1] : serviceTables[0];
}

function textOf(tables: readonly TableChange[]): string {
  return tables.map((table) => table.text()).join("");
}

/** The line of a Service as kip writes it, for sums: endpoints may be in another order here. */
function lineOf(key: string, view: ServiceView | undefined): string | undefined {
  if (!view) return undefined;
  return encodeLine({ kind: "service", key, view: withSortedEndpoints(view) });
}
