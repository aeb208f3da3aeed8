import {
  bucketCount,
  bucketOf,
  groupsOf,
  unknownSums,
  type PolicyView,
  type ViewChange,
} from "@kip/network-view";
import { backoffDelay, pause, SerialQueue, systemClock, type Clock, type Logger } from "@kip/base";
import { familiesOf, type Family } from "./family.ts";
import { changedAddresses, partOf, type ChangedAddresses } from "./changed-addresses.ts";
import { inBlocks } from "./in-blocks.ts";
import { copyClients } from "./kept-clients.ts";
import { policyChange, type KnownPolicy } from "./policy-change.ts";
import {
  closedPolicyTable,
  otherPolicyTable,
  policyTables,
  type PolicyTable,
} from "./policy-rules.ts";
import {
  isPreparedFor,
  placeElements,
  preparedCounts,
  type PreparedTables,
} from "./prepared-tables.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { TableChange } from "./rule-set.ts";
import type { RulesChange } from "./service-change.ts";
import { Services, type ServiceChanges, type ServiceTable } from "./services.ts";
import { policyTableInForce, tableInForce } from "./table-in-force.ts";
import type { StaleFlows } from "./connections/stale-flows.ts";
import { StaleList } from "./connections/stale-list.ts";

/** Delays before another attempt to have connections forgotten, milliseconds. */
const forgetBackoff = { initialMs: 1000, maxMs: 60_000 } as const;

/** Options of {@link NetworkRules}. */
export interface NetworkRulesOptions {
  readonly place: RoutingPlace;
  /** Gives commands to nft as one transaction, in the namespace that the rules are for, and returns what it prints. */
  readonly runNft: (text: string) => Promise<string>;
  /**
   * Whether an earlier process may have left rules in force. If so, they stay until the whole table of Services has come. Otherwise the first
   * change is put in force at once. @default false
   */
  readonly takesOver?: boolean | undefined;
  /** Tables that are in force already, and that the first change is added to if they suit the place. @default none */
  readonly prepared?: PreparedTables | undefined;
  /** Has the kernel forget connections. After a failure, which is logged, it is called again with a back-off of 1 s to 60 s. */
  readonly forget: (flows: readonly StaleFlows[]) => Promise<void>;
  readonly logger: Logger;
  /** @default the machine's */
  readonly clock?: Clock | undefined;
  /** Once it aborts, nothing is tried again. @default never */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Services and the policy of one machine as nftables rules. Changes are put in force one after the other, each by transactions of what
 * differs. After a failure, and by a new process, everything is written again, in tables beside those in force.
 */
export class NetworkRules {
  readonly #options: NetworkRulesOptions;
  readonly #services: Services;
  readonly #families: readonly Family[];
  readonly #queue = new SerialQueue();
  readonly #groups = new Map<string, Set<string>>();
  #policy: PolicyView | undefined;
  /** Whether the first change can be added to tables that were prepared. */
  #isPrepared: boolean;
  /** Whether the kernel is known to have exactly the policy, and the Services, that are known here. Otherwise they are written again. */
  readonly #isKnown = { policy: false, services: false };
  /** The table of Services in force; undefined if the kernel must be asked. */
  #inForce: ServiceTable | "none" | undefined;
  /** The same for the table of the policy. */
  #policyInForce: PolicyTable | "none" | undefined;
  /** The table that changes of the policy go to. */
  #policyTable: PolicyTable = policyTables[0];
  /** Buckets of Services that have not come yet, while the rules of an earlier process are in force. */
  readonly #missing = new Set<number>();
  /** Buckets of each change that waits or is being applied: their sums are about to change. */
  readonly #pendingBuckets = new Set<ReadonlySet<number>>();
  /** Flows that the kernel must forget, once rules are in force that lead no new ones there. */
  readonly #stale = new StaleList();
  /** How often forgetting has failed since it last worked. */
  #failures = 0;
  /** Whether the back-off lasts. Changes do not try meanwhile, as an attempt may take seconds and delays them. */
  #isForgetPaused = false;
  /** Whether rules may have led connections to endpoints already: before that, there is nothing to forget. */
  #mayHaveFlows: boolean;

  constructor(options: NetworkRulesOptions) {
    this.#options = options;
    const { place, prepared, takesOver = false } = options;
    this.#isPrepared = prepared !== undefined && !takesOver && isPreparedFor(prepared, place);
    this.#services = new Services(place, this.#isPrepared ? preparedCounts : []);
    this.#families = familiesOf(place);
    this.#inForce = takesOver ? undefined : "none";
    this.#mayHaveFlows = takesOver;
    this.#policyInForce = this.#inForce;
    if (takesOver) for (let bucket = 0; bucket < bucketCount; bucket++) this.#missing.add(bucket);
  }

  /**
   * Sums of the known Services, by which kip finds buckets that it has to send whole, see `TableDigest`. A bucket with a change that is not
   * applied yet has a sum that always differs. Otherwise a new connection would take the old sum for what will be in force.
   */
  get sums(): readonly number[] {
    const unknown = unknownSums();
    const isPending = (bucket: number): boolean =>
      [...this.#pendingBuckets].some((of) => of.has(bucket));
    return this.#services.sums.map((sum, bucket) =>
      this.#missing.has(bucket) || isPending(bucket) ? (unknown[bucket] ?? 0) : sum,
    );
  }

  /**
   * Puts a change in force. Until there is a policy, the pod neither sends nor receives. After a failure, the next call writes everything again.
   *
   * @throws {CodedError} `COMMAND_FAILED`; a repetition is safe
   */
  async apply(change: ViewChange): Promise<void> {
    const buckets = new Set([...change.buckets, ...[...change.services.keys()].map(bucketOf)]);
    this.#pendingBuckets.add(buckets);
    try {
      await this.#queue.run(async () => await this.#apply(change));
    } finally {
      this.#pendingBuckets.delete(buckets);
    }
  }

  /** Commands that give prepared tables what the place adds to them; empty unless there are some and this is the first change. */
  #beginWithPrepared(): string {
    if (!this.#isPrepared) return "";
    this.#isPrepared = false;
    this.#inForce = this.#services.table;
    this.#policyInForce = this.#policyTable;
    this.#isKnown.policy = true;
    this.#isKnown.services = true;
    return placeElements(this.#options.place);
  }

  async #apply(change: ViewChange): Promise<void> {
    const first = this.#beginWithPrepared();
    const known = { ...this.#isKnown };
    // If anything fails from here on, the kernel may have something else than is known here.
    this.#isKnown.policy = false;
    this.#isKnown.services = false;
    const isOfPolicy = change.policy !== undefined || change.groups.length > 0;
    const changed = changedAddresses(change.groups);
    const before = isOfPolicy && known.policy ? this.#knownPolicy(changed) : undefined;
    await inBlocks(this.#note(change));
    const changes = this.#services.change(this.#withBuckets(change), (to) =>
      this.#stale.hasDestination(to),
    );
    const { texts, stale } = await inBlocks(changes);
    if (this.#failures > 0) this.#stale.trim();
    // Looking for stale connections reads the kernel's whole list, and a new pod has none.
    if (this.#mayHaveFlows) this.#stale.add(stale);
    this.#mayHaveFlows = true;
    for (const bucket of change.buckets) this.#missing.delete(bucket);
    const { changes: policy, removals } = !known.policy
      ? { changes: await this.#replacePolicy(), removals: "" }
      : isOfPolicy
        ? await this.#policyText(before, changed)
        : { changes: "", removals: "" };
    if (known.services) await this.#runAll([first + policy, ...texts]);
    else if (await this.#mayRebuild()) await this.#rebuild(policy);
    else await this.#runAll([policy]);
    await this.#runAll([removals]);
    this.#policyInForce = this.#policyTable;
    this.#isKnown.policy = true;
    this.#isKnown.services = this.#missing.size === 0;
    if (this.#isKnown.services) await this.#forget();
  }

  /** Whether Services may be written: all of them are known, or no rules are in force that should stay until then. */
  async #mayRebuild(): Promise<boolean> {
    this.#inForce ??= (await tableInForce(this.#families, this.#options.runNft)) ?? "none";
    if (this.#inForce === "none") this.#missing.clear();
    return this.#missing.size === 0;
  }

  async #rebuild(first: string): Promise<void> {
    const inForce = this.#inForce === "none" ? undefined : this.#inForce;
    // If a command fails, it may have been the last one and have worked: ask the kernel then.
    this.#inForce = undefined;
    const { runNft, logger, clock } = this.#options;
    const services = this.#services;
    const batches = services.fill(inForce, first);
    let last = "";
    for (let text = await nextText(batches); text !== undefined; text = await nextText(batches)) {
      if (last !== "") await runNft(last);
      last = text;
    }
    const [hooks, removal] = services.putInForce();
    if (inForce !== undefined && services.clientMaps.length > 0) {
      if (last !== "") await runNft(last);
      last = "";
      const to = services.table;
      await copyClients(services.clientMaps, { from: inForce, to, runNft, clock, logger });
    }
    await runNft(last + hooks);
    await runNft(removal);
    this.#inForce = services.table;
  }

  /**
   * Makes the table of the policy again, beside the one in force, and removes the old one in a later transaction. If one transaction did
   * both, a packet could pass the place of the new chain before it and that of the old chain after it, and so meet neither.
   *
   * @returns commands for that later transaction
   */
  async #replacePolicy(): Promise<string> {
    if (this.#options.place.cable === undefined) return "";
    const { runNft } = this.#options;
    const inForce = (this.#policyInForce ??=
      (await policyTableInForce(this.#families, runNft)) ?? "none");
    // If a command fails, it may have worked all the same: ask the kernel then.
    this.#policyInForce = undefined;
    this.#policyTable = inForce === "none" ? policyTables[0] : otherPolicyTable(inForce);
    const table = this.#closedTables() + (await this.#policyText(undefined)).changes;
    const old = otherPolicyTable(this.#policyTable);
    const removal = this.#families
      .map(({ ip }) => `add table ${ip} ${old}\ndelete table ${ip} ${old}\n`)
      .join("");
    if (inForce === "none") return removal + table;
    await runNft(table);
    return removal;
  }

  /** Runs nft for each text. The first two, the policy and the first Services, are one transaction, as each run of nft takes time. */
  async #runAll([policy = "", first = "", ...texts]: readonly string[]): Promise<void> {
    for (const text of [policy + first, ...texts])
      if (text !== "") await this.#options.runNft(text);
  }

  async #forget(): Promise<void> {
    if (this.#stale.size === 0 || this.#isForgetPaused) return;
    try {
      await this.#options.forget(this.#stale.all);
      this.#stale.clear();
      this.#failures = 0;
    } catch (err) {
      this.#options.logger.warn("Could not end connections to endpoints that are gone", { err });
      this.#forgetLater();
    }
  }

  /**
   * Tries again after a delay. No event tells when the kernel, or socat, works again, and without another try clients would send to endpoints
   * that are gone until the next change of a Service.
   */
  #forgetLater(): void {
    const { clock = systemClock, signal = new AbortController().signal } = this.#options;
    this.#isForgetPaused = true;
    void pause(backoffDelay(this.#failures++, forgetBackoff), clock, signal).then(
      async (isOver) => {
        this.#isForgetPaused = false;
        if (!isOver) return;
        // If Services are not known to be in force, the change that puts them in force does it.
        await this.#queue.run(async () => {
          if (this.#isKnown.services) await this.#forget();
        });
      },
    );
  }

  /** Gives how many addresses each line has. */
  *#note({ groups, policy }: ViewChange): Generator<number, void> {
    for (const group of groups) {
      if (group.change === "gone") {
        this.#groups.delete(group.name);
        continue;
      }
      const known = group.change === "reset" ? undefined : this.#groups.get(group.name);
      const addresses = known ?? new Set();
      for (const address of group.add) addresses.add(address);
      for (const address of group.remove) addresses.delete(address);
      this.#groups.set(group.name, addresses);
      yield group.add.length + group.remove.length;
    }
    if (!policy) return;
    this.#policy = policy;
    // Groups that the policy does not name are of an earlier connection to kip, which does not know of them.
    const named = groupsOf(policy);
    for (const name of this.#groups.keys()) if (!named.has(name)) this.#groups.delete(name);
  }

  #withBuckets({ services, buckets, kept }: ViewChange): ServiceChanges {
    const gone = buckets
      .flatMap((bucket) => [...this.#services.keysOf(bucket)])
      .filter((key) => !services.has(key) && !kept?.has(key));
    if (gone.length === 0) return services;
    return new Map([...services, ...gone.map((key) => [key, undefined] as const)]);
  }

  /** @param only all other addresses of groups are left out; default none */
  #knownPolicy(only?: ChangedAddresses): KnownPolicy | undefined {
    const policy = this.#policy;
    if (this.#options.place.cable === undefined || policy === undefined) return undefined;
    return { policy, groups: only ? partOf(this.#groups, only) : this.#groups };
  }

  /**
   * The difference to an earlier policy, as two transactions.
   *
   * @param only as of {@link NetworkRules.#knownPolicy}, of both
   */
  async #policyText(
    before: KnownPolicy | undefined,
    only?: ChangedAddresses,
  ): Promise<{ changes: string; removals: string }> {
    const after = this.#knownPolicy(only);
    const texts = { changes: "", removals: "" };
    for (const family of this.#families) {
      const table = new TableChange(`${family.ip} ${this.#policyTable}`);
      await inBlocks(addAll(table, policyChange(before, after, family)));
      texts.changes += table.changes();
      texts.removals += table.removals();
    }
    return texts;
  }

  #closedTables(): string {
    const { cable, nodeAddresses: nodes } = this.#options.place;
    if (cable === undefined) return "";
    return this.#families
      .map((family) =>
        closedPolicyTable(`${family.ip} ${this.#policyTable}`, { family, cable, nodes }),
      )
      .join("");
  }
}

/** Adds all parts of a change to a table, and gives how much work each was. */
function* addAll(table: TableChange, parts: Iterable<RulesChange>): Generator<number, void> {
  for (const { before, after, work } of parts) {
    table.add(before, after);
    yield work;
  }
}

/** The next text, and nothing at the end. */
async function nextText(texts: Generator<string | number>): Promise<string | undefined> {
  return await inBlocks(untilText(texts));
}

function* untilText(texts: Generator<string | number>): Generator<number, string | undefined> {
  for (let next = texts.next(); next.done !== true; next = texts.next()) {
    if (typeof next.value === "string") return next.value;
    yield next.value;
  }
  return undefined;
}
