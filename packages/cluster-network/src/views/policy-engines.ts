import { PolicyEngine, type PolicyCell, type PolicyEngineOptions } from "./policy-engine.ts";
import type { PolicyObjects } from "./policy-objects.ts";

/** How long changes wait at most for groups of usual namespaces, milliseconds; a namespace with less to do has its changes sooner. */
const roundLimitMs = 500;

/** After so many rounds in a row that a cell has waited for its groups, its namespace is a slow one. */
const mostMissed = 2;

/** Namespaces are no longer slow when no round of theirs has taken longer than {@link roundLimitMs} for so long, milliseconds. */
const calmMs = 60_000;

/**
 * The engines that compute policies: one for all namespaces, and another one for those whose groups take long while pods change without
 * end. For the first one changes wait a short time only, as users decide how much there is to do for a namespace; so groups of one
 * that takes longer might never be of one state of the cluster. For the second one changes wait until all is done.
 *
 * Both know all objects. Each has groups for the policies of its own cells, so that it can be in another state of the cluster.
 */
export class PolicyEngines {
  readonly usual: PolicyEngine;
  readonly #options: Omit<PolicyEngineOptions, "onRound">;
  /** Undefined while no namespace is slow. */
  #slow: PolicyEngine | undefined;
  readonly #slowNamespaces = new Set<string>();
  /** How many rounds in a row cells have waited for their groups. */
  #missed: ReadonlyMap<PolicyCell, number> = new Map();
  /** When the last round of slow namespaces ended that was longer than {@link roundLimitMs}, by the monotonic clock. */
  #lastLongMs = 0;

  constructor(options: Omit<PolicyEngineOptions, "onRound">) {
    this.#options = options;
    this.usual = new PolicyEngine({
      ...options,
      roundLimitMs,
      onLimit: (waiting) => this.#noteMissed(waiting),
    });
  }

  all(): readonly PolicyEngine[] {
    return this.#slow ? [this.usual, this.#slow] : [this.usual];
  }

  get hasCells(): boolean {
    return this.all().some(({ cells }) => cells.size > 0);
  }

  /** Takes an object of the API. */
  take(change: (objects: PolicyObjects) => void): void {
    for (const { objects } of this.all()) change(objects);
  }

  /** Computes the policy of a cell from now on. */
  add(cell: PolicyCell): void {
    this.#of(cell).add(cell);
  }

  /** Forgets a cell, and what it has. */
  delete(cell: PolicyCell): void {
    const engine = this.#of(cell);
    engine.delete(cell);
    if (engine === this.usual) return;
    const { namespace } = cell;
    if (![...engine.cells].some((other) => other.namespace === namespace))
      this.#slowNamespaces.delete(namespace);
    if (engine.cells.size === 0) this.#slow = undefined;
  }

  /** Whether a cell gets nothing for now; it is woken when it does. */
  isHeld(cell: PolicyCell): boolean {
    return this.#of(cell).isHeld(cell);
  }

  #of({ namespace }: PolicyCell): PolicyEngine {
    return (this.#slowNamespaces.has(namespace) ? this.#slow : undefined) ?? this.usual;
  }

  #noteMissed(waiting: readonly PolicyCell[]): void {
    const before = this.#missed;
    this.#missed = new Map(waiting.map((cell) => [cell, (before.get(cell) ?? 0) + 1]));
    const slow = waiting.filter((cell) => (this.#missed.get(cell) ?? 0) >= mostMissed);
    if (slow.length > 0) this.#separate(new Set(slow.map(({ namespace }) => namespace)));
  }

  #separate(namespaces: ReadonlySet<string>): void {
    const cells = [...this.usual.cells].filter(({ namespace }) => namespaces.has(namespace));
    for (const cell of cells) this.usual.release(cell);
    this.#slow ??= this.#createSlow();
    for (const namespace of namespaces) this.#slowNamespaces.add(namespace);
    for (const cell of cells) this.#slow.add(cell);
  }

  #createSlow(): PolicyEngine {
    this.#lastLongMs = this.#options.clock.monotonic();
    const slow = new PolicyEngine({
      ...this.#options,
      onRound: (tookMs) => {
        if (slow === this.#slow) this.#noteRound(slow, tookMs);
      },
    });
    slow.policies.copy(this.usual.policies);
    return slow;
  }

  #noteRound(slow: PolicyEngine, tookMs: number): void {
    const nowMs = this.#options.clock.monotonic();
    if (tookMs > roundLimitMs) this.#lastLongMs = nowMs;
    if (nowMs - this.#lastLongMs < calmMs) return;
    this.#slow = undefined;
    this.#slowNamespaces.clear();
    for (const cell of slow.cells) {
      slow.release(cell);
      this.usual.add(cell);
    }
  }
}
