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

/** What {@link PolicyEngine} needs. */
export interface PolicyEngineOptions {
  readonly clock: Clock;
  readonly logger?: Logger | undefined;
  readonly reports: PolicyReports;
  readonly most?: { readonly policies: Cost; readonly rules?: number | undefined } | undefined;
  /** What all cells share; a change of groups is a new version. */
  readonly lines: Pick<SharedLines, "services"> & { version: number };
  /** How long changes wait at most, milliseconds, while it is computed what earlier ones mean; Infinity for no limit. */
  readonly mostHeldMs: number;
  /** Has the next version made at the usual time. */
  readonly schedule: () => void;
  /** Has blocks computed from now on, until there is nothing to do. */
  readonly compute: () => void;
}

/** A cell, and its policy. */
export interface PolicyCell {
  readonly podUid: string;
  readonly namespace: string;
  readonly knowsTiers: boolean;
  readonly hasShortLists: boolean;
  readonly sums: readonly number[];
  /** Undefined until the pod's rules are known for the first time. */
  view: CellView | undefined;
  rules: PodRules | undefined;
  /** Of other rules, while groups that those name are not filled. */
  draft: RulesDraft | undefined;
  /** Since how many {@link AddressGroups.fills} the policies of its pod are the same. */
  since: number;
  /** Since when it has been given nothing, as something is being computed, by the monotonic clock; undefined if nothing is. */
  heldSinceMs: number | undefined;
  wake: () => void;
}

/**
 * Computes the policies of cells in blocks of time, and wakes cells that there is something for.
 *
 * A cell waits until the groups of its namespace are of one state of the cluster, unless it has waited for too long, as pods change without
 * end: then it has each group as that was when it had last seen all pods. Policies of administrators may deny, so cells that have some wait.
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
  /** Cells to be woken, as there is something for them. */
  readonly #behind = new Set<PolicyCell>();
  #areAllBehind = false;

  constructor(options: PolicyEngineOptions) {
    const { clock, reports, most, mostHeldMs, logger } = options;
    this.#options = options;
    this.#intake = new ChangeIntake({
      clock,
      mostHeldMs,
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
    // Its pod may be among the changes that wait.
    this.#intake.take(cell, () => {
      cell.since = this.groups.fills;
      if (this.cells.has(cell)) this.#turns.add(cell);
      this.#options.compute();
    });
  }

  /** Forgets a cell, and what it has. */
  delete(cell: PolicyCell): void {
    for (const cells of [this.cells, this.#turns, this.#behind]) cells.delete(cell);
    this.#rules.release(cell.rules);
    this.#rules.releaseDraft(cell.draft);
    cell.rules = undefined;
    cell.draft = undefined;
    this.#options.compute(); // others may have room now
  }

  /** Whether a cell gets nothing for now; it is woken when it does. */
  isHeld(cell: PolicyCell): boolean {
    const isLate = this.#isLate(cell);
    if (isLate) this.#behind.add(cell);
    const isHeld = isLate || this.#turns.has(cell);
    if (isHeld) this.#noteHeld(cell);
    else cell.heldSinceMs = undefined;
    return isHeld;
  }

  /** Notes that there is a new version for all cells. */
  noteVersion(): void {
    this.#areAllBehind = true;
  }

  /** Has cells woken that there is a new version for. */
  noteBehind(): void {
    if (this.#areAllBehind) for (const each of this.cells) this.#behind.add(each);
    this.#areAllBehind = false;
  }

  /**
   * Finds what policies mean until a time, and wakes cells.
   *
   * @returns whether all policies are computed, what has changed of them is published, and cells are woken
   */
  computeBlock(untilMs: number): boolean {
    this.#intake.openIfDue();
    this.#turns.serve(untilMs);
    const isOver = this.#turns.isEmpty && this.groups.isSettled && !this.#rules.areSomeOutdated();
    // While policies are computed, cells hear of other changes at the usual times only.
    if (isOver) this.noteBehind();
    else if (this.#areAllBehind) this.#options.schedule();
    // Policies may have taken all of the block: others' changes do not wait until they are done.
    this.#wake(Math.max(untilMs, this.#options.clock.monotonic() + blockMs / 2));
    // Cells that have yet to get their turns wait for no groups: new ones may come.
    if (this.groups.isSettled && this.#behind.size === 0) this.#intake.open();
    else this.#intake.hold();
    return isOver && this.#turns.isEmpty && this.#behind.size === 0; // new cells may have waited
  }

  /** Wakes cells until a time, and one at least: each has its next change made. */
  #wake(untilMs: number): void {
    const { clock } = this.#options;
    let cells = 0;
    for (const cell of this.#behind) {
      if (this.#isLate(cell)) continue;
      this.#behind.delete(cell);
      cell.wake();
      if (++cells >= cellsOfBlock || clock.monotonic() >= untilMs) break;
    }
  }

  /** Whether groups that a cell has are not of one state of the cluster: it gets nothing until they are. */
  #isLate(cell: PolicyCell): boolean {
    const { rules } = cell;
    if (rules?.owner === undefined || !this.groups.isLate(rules.owner)) return false;
    this.#noteHeld(cell);
    return rules.isAllowing !== true || !this.#isHeldLong(cell);
  }

  #noteHeld(cell: PolicyCell): void {
    cell.heldSinceMs ??= this.#options.clock.monotonic();
  }

  /** Whether a cell waits for longer than changes do, twice over. */
  #isHeldLong({ heldSinceMs }: PolicyCell): boolean {
    const { clock, mostHeldMs } = this.#options;
    return heldSinceMs !== undefined && clock.monotonic() - heldSinceMs >= 2 * mostHeldMs;
  }

  /** Gives lines of groups their changes, and holds cells whose policy may be another one. */
  #publish(): void {
    const { lines } = this.#options;
    const version = lines.version + 1;
    for (const [name, change] of this.groups.takeChanges())
      if (this.#rules.change(name, change, version)) lines.version = version;
    if (lines.version === version) this.#areAllBehind = true;
    const outdated = new Set(this.#rules.takeOutdated());
    for (const cell of outdated.size > 0 ? this.cells : [])
      if (cell.rules && outdated.has(cell.rules)) this.#turns.add(cell);
    for (const cell of this.#affected.take(this.cells, this.groups)) {
      cell.since = this.groups.fills;
      this.#turns.add(cell);
    }
  }

  /** Gives a cell the rules that its pod has now, if groups that they name are filled. It takes further turns until its policies are read. */
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
    // Until a pod is known in whose namespace there are policies, nothing may pass; one that is gone keeps its rules until its cell ends.
    const rules = wanted ?? before ?? closedRules;
    if (rules !== before) {
      this.#rules.release(before);
      cell.rules = rules;
      const { knowsTiers, hasShortLists } = cell;
      const policy = !knowsTiers ? rules.plain : hasShortLists ? rules.short : rules.whole;
      const first = [...new Set([...commonNamespaces, namespace])];
      if (view) view.setPolicy(policy);
      else cell.view = new CellView(this, { sums, first, policy });
    } else if (wanted) this.#rules.release(wanted); // it was taken twice
    this.#behind.delete(cell);
    cell.wake();
  }

  /** What may pass to and from a pod; neither rules nor a draft if that depends on a pod that is not known. */
  #rulesOf(cell: PolicyCell): {
    readonly rules?: PodRules;
    readonly draft?: RulesDraft;
  } {
    const isMachine = cell.podUid === "";
    if (isMachine || !this.policies.concerns(cell.namespace)) return { rules: openRules };
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
