import { bucketOf, type PolicyView, type ViewChange } from "@kip/network-view";
import { SerialQueue, type Logger } from "@kip/base";
import { familiesOf, type Family } from "./family.ts";
import { closedPolicyTable, policyRules } from "./policy-rules.ts";
import type { RoutingPlace } from "./routing-place.ts";
import { emptyRuleSet, TableChange, type RuleSet } from "./rule-set.ts";
import { Services, type ServiceChanges } from "./services.ts";
import type { StaleFlows } from "./connections/stale-flows.ts";

/** Options of {@link NetworkRules}. */
export interface NetworkRulesOptions {
  readonly place: RoutingPlace;
  /** Gives commands to nft as one transaction, in the namespace that the rules are for. */
  readonly runNft: (text: string) => Promise<void>;
  /** Has the kernel forget connections. A failure is logged and has no other effect. */
  readonly forget: (flows: readonly StaleFlows[]) => Promise<void>;
  readonly logger: Logger;
}

const policyTable = "kip_policy";

/** A transaction with more text is not made: nft takes 50 times as much memory, and a new table is filled in parts. */
const transactionCharacters = 512 * 1024;

/**
 * Services and the policy of one machine as nftables rules. Changes are put in force one after the other, each as one
 * transaction; after a failure, or by a new process, everything is written again beside the rules that are in force.
 */
export class NetworkRules {
  readonly #options: NetworkRulesOptions;
  readonly #services: Services;
  readonly #families: readonly Family[];
  readonly #queue = new SerialQueue();
  readonly #groups = new Map<string, Set<string>>();
  #policy: PolicyView | undefined;
  /** Whether the kernel has exactly what is known here. */
  #isKnown = false;

  constructor(options: NetworkRulesOptions) {
    this.#options = options;
    this.#services = new Services(options.place);
    this.#families = familiesOf(options.place);
  }

  /** Sums of the Services in force, for whatever sends changes; see `TableDigest`. */
  get sums(): readonly number[] {
    return this.#services.sums;
  }

  /**
   * Puts a change in force; without a policy so far, the pod neither sends nor receives. If this fails it is remembered, and the next call writes everything.
   *
   * @throws {CodedError} `COMMAND_FAILED`; a repetition is safe
   */
  async apply(change: ViewChange): Promise<void> {
    await this.#queue.run(async () => await this.#apply(change));
  }

  async #apply(change: ViewChange): Promise<void> {
    const before = this.#policyRules();
    this.#note(change);
    const { text, stale } = this.#services.change(this.#withBuckets(change));
    if (this.#isKnown && text.length <= transactionCharacters) {
      this.#isKnown = false;
      const policy = this.#policyText(before);
      if (policy + text !== "") await this.#options.runNft(policy + text);
    } else {
      this.#isKnown = false;
      const policy = this.#closedTables() + this.#policyText(undefined);
      for (const batch of this.#services.rebuild(policy)) await this.#options.runNft(batch);
    }
    this.#isKnown = true;
    if (stale.length > 0)
      await this.#options.forget(stale).catch((err: unknown) => {
        this.#options.logger.warn("Could not end connections to endpoints that are gone", { err });
      });
  }

  #note({ groups, policy }: ViewChange): void {
    for (const group of groups) {
      if (group.change === "gone") {
        this.#groups.delete(group.name);
        continue;
      }
      const known = group.change === "reset" ? undefined : this.#groups.get(group.name);
      const addresses = new Set(known);
      for (const address of group.add) addresses.add(address);
      for (const address of group.remove) addresses.delete(address);
      this.#groups.set(group.name, addresses);
    }
    if (policy) this.#policy = policy;
  }

  #withBuckets({ services, buckets }: ViewChange): ServiceChanges {
    if (buckets.length === 0) return services;
    const gone = [...this.#services.keys()].filter(
      (key) => !services.has(key) && buckets.includes(bucketOf(key)),
    );
    return new Map([...services, ...gone.map((key) => [key, undefined] as const)]);
  }

  #policyRules(): readonly RuleSet[] | undefined {
    const policy = this.#policy;
    if (this.#options.place.cable === undefined || policy === undefined) return undefined;
    return this.#families.map((family) => policyRules(policy, this.#groups, family));
  }

  /** What leads from the rules of before to those of now. */
  #policyText(before: readonly RuleSet[] | undefined): string {
    const after = this.#policyRules();
    const texts = this.#families.map((family, index) => {
      const table = new TableChange(`${family.ip} ${policyTable}`);
      table.add(before?.[index] ?? emptyRuleSet, after?.[index] ?? emptyRuleSet);
      return table.text();
    });
    return texts.join("");
  }

  #closedTables(): string {
    const { cable, nodeAddresses: nodes } = this.#options.place;
    if (cable === undefined) return "";
    return this.#families
      .map((family) => closedPolicyTable(`${family.ip} ${policyTable}`, { family, cable, nodes }))
      .join("");
  }
}
