import {
  bucketOf,
  ChangeReader,
  encodeLine,
  TableDigest,
  type PolicyView,
  type RuleAction,
  type ServiceView,
  type TierRule,
  type ViewChange,
} from "@kip/network-view";
import { matchingRule, type Attempt } from "../explain/matching-rule.ts";
import type { ViewSubscription } from "../views/network-views.ts";

/** What a cell has, by what it was sent. */
export class TestCell {
  readonly groups = new Map<string, Set<string>>();
  readonly services = new Map<string, ServiceView>();
  policy: PolicyView | undefined;
  changes = 0;
  readonly #digest = new TableDigest();
  #call = new AbortController();
  #reader = new ChangeReader();

  /** Of the Services that it has. */
  get sums(): readonly number[] {
    return [...this.#digest.sums];
  }

  /** Takes changes until the signal aborts. */
  async follow(subscription: ViewSubscription, signal: AbortSignal): Promise<void> {
    this.#reader = new ChangeReader();
    while (!signal.aborted) {
      this.#call = new AbortController();
      const either = AbortSignal.any([this.#call.signal, signal]);
      const pieces = await subscription.next(either).catch(() => []);
      for (const piece of pieces) for (const change of this.#reader.push(piece)) this.#take(change);
    }
  }

  /** Asks for a change without waiting to be woken, as a cell that has just confirmed one. */
  ask(): void {
    this.#call.abort();
  }

  /** Whether NetworkPolicies let an address in. */
  admits(address: string): boolean {
    const rules = this.policy?.ingress;
    if (!this.policy || !rules) return this.policy !== undefined;
    const attempt = { address, port: 80, protocol: "TCP" } as const;
    return matchingRule(rules, attempt, this.#addressesOf) >= 0;
  }

  /** Whether the whole policy lets a connection pass; undefined before there is a policy. */
  passes(direction: "ingress" | "egress", attempt: Attempt): boolean | undefined {
    if (!this.policy) return undefined;
    const { admin, baseline, [direction]: own } = this.policy;
    const first = this.#actionOf(admin?.[direction], attempt);
    if (first !== "pass") return first === "allow";
    if (own) return matchingRule(own, attempt, this.#addressesOf) >= 0;
    return this.#actionOf(baseline?.[direction], attempt) !== "deny";
  }

  #actionOf(rules: readonly TierRule[] = [], attempt: Attempt): RuleAction {
    return rules[matchingRule(rules, attempt, this.#addressesOf)]?.action ?? "pass";
  }

  readonly #addressesOf = (name: string): ReadonlySet<string> => this.groups.get(name) ?? new Set();

  #take({ policy, groups, services, buckets, kept }: ViewChange): void {
    this.changes++;
    this.policy = policy ?? this.policy;
    for (const line of groups) {
      const known = this.groups.get(line.name) ?? new Set();
      if (line.change !== "change") known.clear();
      if (line.change === "gone") continue;
      for (const address of line.add) known.add(address);
      for (const address of line.remove) known.delete(address);
      this.groups.set(line.name, known);
    }
    for (const key of this.services.keys())
      if (buckets.includes(bucketOf(key)) && !services.has(key) && kept?.has(key) !== true)
        this.#set(key, undefined);
    for (const [key, view] of services) this.#set(key, view);
  }

  #set(key: string, view: ServiceView | undefined): void {
    const lineOf = (each: ServiceView | undefined): string | undefined =>
      each && encodeLine({ kind: "service", key, view: each });
    this.#digest.change(key, lineOf(this.services.get(key)), lineOf(view));
    if (view) this.services.set(key, view);
    else this.services.delete(key);
  }
}
