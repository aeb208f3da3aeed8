import type { Clock, Logger } from "@kip/base";
import type { Cost } from "../budget/namespace-budget.ts";
import type { AddressGroups } from "../policies/address-groups.ts";
import { PolicyIndex } from "../policies/policy-index.ts";
import { AffectedPods } from "./affected-pods.ts";
import { blockMs, cellsOfBlock, CellTurns } from "./cell-turns.ts";
import { CellView, type SharedLines } from "./cell-view.ts";
import { ChangeIntake } from "./change-intake.ts";
import type { GroupLines } from "./group-lines.ts";
import { closedRules, openRules, SharedRules, type PodRules } from "./pod-rules.ts";
import { PolicyObjects } from "./policy-objects.ts";
import type { PolicyReports } from "./policy-reports.ts";
import type { RulesDraft } from "./rules-drafts.ts";

/** Namespaces whose Services nearly every pod uses: the API server's and DNS. */
const commonNamespaces: readonly string[] = ["default", "kube-system"];

/** Options of {@link PolicyEngine}. */
export interface PolicyEngineOptions {
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  readonly reports: PolicyReports;
  readonly most?: { readonly policies: Cost; readonly rules?: number | undefined } | undefined;
  /** The lines that all cells share. The engine raises the version when groups change. */
  readonly lines: Pick<SharedLines, "services"> & { version: number };
  /** Longest time that changes are held while the effect of earlier ones is computed, milliseconds. Infinity means no limit. */
  readonly maxHeldMs: number;
  /** Requests the next version at its usual time. */
  readonly schedule: () => void;
  /** Requests calls of {@link PolicyEngine.computeBlock} until there is nothing to do. */
  readonly compute: () => void;
}

/** A cell, and its policy. */
export interface PolicyCell {
  readonly podUid: string;
  readonly namespace: string;
  readonly knowsTiers: boolean;
  readonly hasShortLists: boolean;
  readonly sums: readonly number[];
  /** Undefined until the pod's rules have been computed once. */
  view: CellView | undefined;
  rules: PodRules | undefined;
  /** The rules that the cell waits for, because some groups are not filled. */
  draft: RulesDraft | undefined;
  /** The value of {@link AddressGroups.fills} when the policies of its pod last changed. */
  since: number;
  /** Since when the cell waits for a computation, by the monotonic clock. Undefined if it does not wait. */
  heldSinceMs: number | undefined;
  wake: () => void;
}

/**
 * Computes the policies of cells in blocks of time, and wakes cells for which something has changed.
 *
 * A cell waits until all groups of its namespace show the same state of the cluster. If pods change continuously and it has waited for too
 * long, it gets each group as of when that was last up to date. Cells with administrators' policies continue to wait, because those may deny.
 */
export class PolicyEngine implements SharedLines {
  readonly policies: PolicyIndex;
  readonly objects: PolicyObjects;
  readonly cells = new Set<PolicyCell>();
  readonly #options: PolicyEngineOptions;
  readonly #rules: SharedRules;
  readonly #affected = new AffectedPods();
  readonly #intake: ChangeIntake;
  readonly #turns: CellTurns<PolicyCell>;
  /** Cells to be woken. */
  readonly #toWake = new Set<PolicyCell>();
  #hasNewVersion = false;

  constructor(options: PolicyEngineOptions) {
    const { clock, reports, most, maxHeldMs, logger } = options;
    this.#options = options;
    this.#intake = new ChangeIntake({
      clock,
      maxHeldMs,
      onFailure: (err) =>
        logger?.error("Could not take a change of what network policies depend on", { err }),
    });
    this.policies = new PolicyIndex(most?.policies);
    this.policies.budget.onRefused = (refusal) => reports.refused(refusal);
    this.objects = new PolicyObjects({
      policies: this.policies,
      affected: this.#affected,
      intake: this.#intake,
      onChange: options.schedule,
    });
    this.#rules = new SharedRules(this.policies, reports, most?.rules);
    this.#turns = new CellTurns({
      clock,
      groups: this.groups,
      isFilled: (draft) => this.#rules.isFilled(draft),
      publish: () => this.#publish(),
      serve: (cell) => this.#replaceRules(cell),
    });
  }

  /** Addresses of pods by the selectors of policies. */
  get groups(): AddressGroups {
    return this.policies.groups;
  }

  get version(): number {
    return this.#options.lines.version;
  }

  get services(): SharedLines["services"] {
    return this.#options.lines.services;
  }

  /** Lines of a group that a cell uses. */
  group(name: string): GroupLines | undefined {
    return this.#rules.group(name);
  }

  /** Computes the policy of a cell from now on. */
  add(cell: PolicyCell): void {
    this.cells.add(cell);
    // After changes that are held, because its pod may be one of them.
    this.#intake.take(cell, () => {
      cell.since = this.groups.fills;
      if (this.cells.has(cell)) this.#turns.add(cell);
      this.#options.compute();
    });
  }

  /** Removes a cell and releases its rules. */
  delete(cell: PolicyCell): void {
    for (const cells of [this.cells, this.#turns, this.#toWake]) cells.delete(cell);
    this.#rules.release(cell.rules);
    this.#rules.releaseDraft(cell.draft);
    cell.rules = undefined;
    cell.draft = undefined;
    this.#options.compute(); // others may fit the budget now
  }

  /** Whether a cell must wait. If so, it is woken later. */
  isHeld(cell: PolicyCell): boolean {
    const isOutdated = this.#hasOutdatedGroups(cell);
    if (isOutdated) this.#toWake.add(cell);
    const isHeld = isOutdated || this.#turns.has(cell);
    if (isHeld) this.#noteHeld(cell);
    else cell.heldSinceMs = undefined;
    return isHeld;
  }

  /** Call this when there is a new version for all cells. */
  noteVersion(): void {
    this.#hasNewVersion = true;
  }

  /** Queues all cells to be woken, if there is a new version. */
  queueWakeups(): void {
    if (this.#hasNewVersion) for (const each of this.cells) this.#toWake.add(each);
    this.#hasNewVersion = false;
  }

  /**
   * Computes policies until a time, and wakes cells.
   *
   * @returns whether there is nothing more to do
   */
  computeBlock(untilMs: number): boolean {
    this.#intake.releaseIfDue();
    this.#turns.serve(untilMs);
    const isOver = this.#turns.isEmpty && this.groups.isSettled && !this.#rules.hasOutdated();
    // While policies are computed, cells get changes of Services only at the usual times.
    if (isOver) this.queueWakeups();
    else if (this.#hasNewVersion) this.#options.schedule();
    // Policies may have used up the block. Add half a block for waking, so that cells need not wait for all policies.
    this.#wake(Math.max(untilMs, this.#options.clock.monotonic() + blockMs / 2));
    // Apply held changes as soon as groups are up to date and cells have them, even if some cells still wait for their turn.
    if (this.groups.isSettled && this.#toWake.size === 0) this.#intake.release();
    else this.#intake.hold();
    return isOver && this.#turns.isEmpty && this.#toWake.size === 0; // new cells may have waited
  }

  /** Wakes cells until a time, but at least one. A cell's next change is made when it is woken. */
  #wake(untilMs: number): void {
    const { clock } = this.#options;
    let cells = 0;
    for (const cell of this.#toWake) {
      if (this.#hasOutdatedGroups(cell)) continue;
      this.#toWake.delete(cell);
      cell.wake();
      if (++cells >= cellsOfBlock || clock.monotonic() >= untilMs) break;
    }
  }

  /** Whether a cell must wait because its groups do not all show the same state of the cluster. */
  #hasOutdatedGroups(cell: PolicyCell): boolean {
    const { rules } = cell;
    if (rules?.owner === undefined || !this.groups.hasOutdatedGroup(rules.owner)) return false;
    this.#noteHeld(cell);
    return rules.isAllowOnly !== true || !this.#isHeldLong(cell);
  }

  #noteHeld(cell: PolicyCell): void {
    cell.heldSinceMs ??= this.#options.clock.monotonic();
  }

  /** Whether a cell has waited for twice the longest time that changes are held. */
  #isHeldLong({ heldSinceMs }: PolicyCell): boolean {
    const { clock, maxHeldMs } = this.#options;
    return heldSinceMs !== undefined && clock.monotonic() - heldSinceMs >= 2 * maxHeldMs;
  }

  /** Applies changes of groups to their lines, and queues cells whose policy may have changed. */
  #publish(): void {
    const { lines } = this.#options;
    const version = lines.version + 1;
    for (const [name, change] of this.groups.takeChanges())
      if (this.#rules.change(name, change, version)) lines.version = version;
    if (lines.version === version) this.#hasNewVersion = true;
    const outdated = new Set(this.#rules.takeOutdated());
    for (const cell of outdated.size > 0 ? this.cells : [])
      if (cell.rules && outdated.has(cell.rules)) this.#turns.add(cell);
    for (const cell of this.#affected.take(this.cells, this.groups)) {
      cell.since = this.groups.fills;
      this.#turns.add(cell);
    }
  }

  /**
   * Gives a cell the current rules of its pod, if their groups are filled. While policies of its namespace are unread, only reads some of
   * them, and the cell stays in the queue.
   */
  #replaceRules(cell: PolicyCell): void {
    if (!this.policies.readSome(cell.namespace)) return;
    const { view, rules: before, draft: draftBefore, sums, namespace } = cell;
    const { rules: wanted, draft } = this.#rulesOf(cell);
    cell.draft = draft;
    this.#rules.releaseDraft(draftBefore);
    if (draft) {
      this.#noteHeld(cell);
      this.#turns.awaitGroups(cell);
      return;
    }
    this.#turns.delete(cell);
    // An unknown pod gets closed rules, because policies of its namespace may select it. A deleted pod keeps its rules until its cell ends.
    const rules = wanted ?? before ?? closedRules;
    if (rules !== before) {
      this.#rules.release(before);
      cell.rules = rules;
      const { knowsTiers, hasShortLists } = cell;
      const policy = !knowsTiers ? rules.plain : hasShortLists ? rules.short : rules.whole;
      const first = [...new Set([...commonNamespaces, namespace])];
      if (view) view.setPolicy(policy);
      else cell.view = new CellView(this, { sums, first, policy });
    } else if (wanted) this.#rules.release(wanted); // #rulesOf() has returned the same rules again
    this.#toWake.delete(cell);
    cell.wake();
  }

  /** The rules of a cell's pod, or a draft of them. Neither if policies may select the pod and it is not known yet. */
  #rulesOf(cell: PolicyCell): {
    readonly rules?: PodRules;
    readonly draft?: RulesDraft;
  } {
    const isMachine = cell.podUid === "";
    if (isMachine || !this.policies.mayApplyTo(cell.namespace)) return { rules: openRules };
    try {
      const choice = this.policies.choiceOf(cell.podUid);
      const since = this.#isHeldLong(cell) ? cell.since : undefined;
      return choice ? this.#rules.take(choice, { before: cell.rules, since }) : {};
    } catch (err) {
      this.#options.logger?.error("Could not read the network policies of a pod", {
        podUid: cell.podUid,
        err,
      });
      return { rules: closedRules };
    }
  }
}
