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

/** Back-off for deleting stale connections, milliseconds. */
const forgetBackoff = { initialMs: 1000, maxMs: 60_000 } as const;

/** Options of {@link NetworkRules}. */
export interface NetworkRulesOptions {
  readonly place: RoutingPlace;
  /** Runs commands of nft as one transaction, in the network namespace of the rules. Returns the output. */
  readonly runNft: (text: string) => Promise<string>;
  /**
   * Whether rules of an earlier process may be in force. If so, they stay until the whole table of Services is known. Otherwise the first
   * change is applied immediately. @default false
   */
  readonly takesOver?: boolean | undefined;
  /** Tables that are already in force. The first change is added to them if they are made for this place. @default none */
  readonly prepared?: PreparedTables | undefined;
  /** Deletes connections from the kernel's table. After a failure, which is logged, it is called again with a back-off of 1 s to 60 s. */
  readonly forget: (flows: readonly StaleFlows[]) => Promise<void>;
  readonly logger: Logger;
  /** @default the system clock */
  readonly clock?: Clock | undefined;
  /** No retries after this aborts. @default never */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Applies Services and the policy of one machine as nftables rules. Changes are applied one after the other, each as transactions with the
 * differences. After a failure, and in a new process, everything is written again, into new tables beside those in force.
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
  /** Whether the kernel certainly has the same policy, and the same Services, as this object. If not, they are written again. */
  readonly #isKnown = { policy: false, services: false };
  /** The table of Services in force. Undefined if it must be read from the kernel. */
  #inForce: ServiceTable | "none" | undefined;
  /** The table of the policy in force. Undefined if it must be read from the kernel. */
  #policyInForce: PolicyTable | "none" | undefined;
  /** The table that changes of the policy are written to. */
  #policyTable: PolicyTable = policyTables[0];
  /** Buckets of Services that have not arrived yet, while rules of an earlier process are in force. */
  readonly #missing = new Set<number>();
  /** The buckets of each change that waits or is being applied. Their checksums are about to change. */
  readonly #pendingBuckets = new Set<ReadonlySet<number>>();
  /** Flows that the kernel must delete, once the new rules are in force. */
  readonly #stale = new StaleList();
  /** How often deleting flows has failed since it last succeeded. */
  #failures = 0;
  /** Whether flows are not deleted because of the back-off. An attempt may take seconds, and would delay changes. */
  #isForgetPaused = false;
  /** Whether connections may already have been routed to endpoints. Before that there are no stale ones. */
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
   * Checksums of the known Services. Kip uses them to find buckets that it must send completely, see `TableDigest`. A bucket with a change that
   * is not applied yet has a checksum that always differs. Otherwise a new connection would report the checksum of the old state.
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
   * Applies a change. The pod cannot send or receive until there is a policy. After a failure, the next call writes everything again.
   *
   * @throws {CodedError} `COMMAND_FAILED`. It is safe to repeat the call
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

  /** Commands that add the addresses of the place to prepared tables. Empty if there are no such tables, or after the first change. */
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
    // If anything fails from here on, the state of the kernel may differ from that of this object.
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
    // A new pod has no stale connections. To look for them, the kernel's whole list would be read.
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

  /** Whether Services may be written. Either all of them are known, or there are no earlier rules that must stay until then. */
  async #mayRebuild(): Promise<boolean> {
    this.#inForce ??= (await tableInForce(this.#families, this.#options.runNft)) ?? "none";
    if (this.#inForce === "none") this.#missing.clear();
    return this.#missing.size === 0;
  }

  async #rebuild(first: string): Promise<void> {
    const inForce = this.#inForce === "none" ? undefined : this.#inForce;
    // A command that fails may still have taken effect. Then read the table in force from the kernel.
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
   * Writes the table of the policy again, beside the one in force. The old one is removed in a later transaction. If one transaction did both,
   * a packet could pass the position of the new chain before the transaction, and that of the old chain after it. Then no chain would check it.
   *
   * @returns commands for the later transaction
   */
  async #replacePolicy(): Promise<string> {
    if (this.#options.place.cable === undefined) return "";
    const { runNft } = this.#options;
    const inForce = (this.#policyInForce ??=
      (await policyTableInForce(this.#families, runNft)) ?? "none");
    // A command that fails may still have taken effect. Then read the table in force from the kernel.
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

  /** Runs nft for each text. The policy and the first Services are one transaction, to save a run of nft. */
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
   * Tries again after a delay. No event reports that the kernel or socat works again. Without a retry, clients would send to endpoints that
   * are gone until the next change of a Service.
   */
  #forgetLater(): void {
    const { clock = systemClock, signal = new AbortController().signal } = this.#options;
    this.#isForgetPaused = true;
    void pause(backoffDelay(this.#failures++, forgetBackoff), clock, signal).then(
      async (isOver) => {
        this.#isForgetPaused = false;
        if (!isOver) return;
        // If Services may not be in force, the next successful change deletes the flows.
        await this.#queue.run(async () => {
          if (this.#isKnown.services) await this.#forget();
        });
      },
    );
  }

  /** Records groups and policy of a change. Yields the number of addresses in each line. */
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
    // Groups that the policy does not name come from an earlier connection to kip. Kip no longer updates them.
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

  /** The current policy. @param only if given, groups contain only these addresses */
  #knownPolicy(only?: ChangedAddresses): KnownPolicy | undefined {
    const policy = this.#policy;
    if (this.#options.place.cable === undefined || policy === undefined) return undefined;
    return { policy, groups: only ? partOf(this.#groups, only) : this.#groups };
  }

  /**
   * The difference between an earlier policy and the current one, as two transactions.
   *
   * @param only see {@link NetworkRules.#knownPolicy}. It applies to both policies
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

/** Adds all parts of a change to a table. Yields the work of each part. */
function* addAll(table: TableChange, parts: Iterable<RulesChange>): Generator<number, void> {
  for (const { before, after, work } of parts) {
    table.add(before, after);
    yield work;
  }
}

/** The next text. Undefined at the end. */
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
