import { setImmediate } from "node:timers/promises";
import type { Node, Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import { pause, untilAborted, type Clock, type Logger } from "@kip/base";
import { referenceTo, type EventRecorder } from "@kip/k8s-client";
import type { Cost } from "../budget/namespace-budget.ts";
import type { AddressGroups } from "../policies/address-groups.ts";
import { podFacts } from "../policies/pod-facts.ts";
import { PolicyIndex } from "../policies/policy-index.ts";
import { standInUid } from "../policies/stand-in.ts";
import { readTierPolicy, type TierKind, type TierObject } from "../policies/tier-policy.ts";
import { allChanges, type ChangeShare } from "../services/change-queue.ts";
import { ServiceIndex } from "../services/service-index.ts";
import { zoneLabel, type ViewNode } from "../services/usable-endpoints.ts";
import { AffectedPods } from "./affected-pods.ts";
import { blockMs, cellsOfBlock, CellTurns } from "./cell-turns.ts";
import { CellView, type SharedLines } from "./cell-view.ts";
import { ChangeIntake } from "./change-intake.ts";
import type { GroupLines } from "./group-lines.ts";
import {
  closedRules,
  openRules,
  SharedRules,
  type PodRules,
  type RulesDraft,
} from "./pod-rules.ts";
import { PolicyReports } from "./policy-reports.ts";
import { ofServices, RefusalLog } from "./refusal-log.ts";
import { ServiceLines } from "./service-lines.ts";

/** Options of {@link NetworkViews}. */
export interface NetworkViewsOptions {
  /** Its zone counts until {@link NetworkViews.setOwnNode} gives another one. */
  readonly node: ViewNode;
  readonly clock: Clock;
  /** Least time between two versions, milliseconds: changes in between are one. The first after a pause waits for none. @default 100 */
  readonly periodMs?: number | undefined;
  /** Is told of objects that cannot be read. @default nothing is logged */
  readonly logger?: Logger | undefined;
  /** Is given events of Services that there is no room for. @default there are none */
  readonly events?: Pick<EventRecorder, "record"> | undefined;
  /** How much one namespace may take. @default mostOfNamespaceCost, mostOfPolicies and mostOfRules */
  readonly most?:
    | {
        readonly services: Cost;
        readonly policies: Cost;
        /** Bytes of rules. */
        readonly rules?: number | undefined;
      }
    | undefined;
  readonly signal: AbortSignal;
}

/** A cell that is kept up to date. */
export interface ViewSubscription extends Disposable {
  /**
   * The next change for the cell, as lines in pieces. The caller calls it again when the cell has confirmed the last one:
   * what changes in between is one change.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

interface Subscriber {
  readonly podUid: string;
  readonly namespace: string;
  readonly knowsTiers: boolean;
  readonly sums: readonly number[];
  /** Undefined until the pod's rules are known for the first time. */
  view: CellView | undefined;
  rules: PodRules | undefined;
  /** Of other rules, while groups that those name are not filled. */
  draft: RulesDraft | undefined;
  wake: () => void;
}

const defaultPeriodMs = 100;

/**
 * How many changed Services a version has: 1,000 per second of one namespace. One namespace cannot keep the changes of others back, on
 * kip or on cells, and a version takes less than 100 ms to make.
 */
const ofVersion: ChangeShare = { ofNamespace: 100, ofAll: 500 };

/** Before there is a cell, everything is listed for the first time: in parts all the same, as kip has other work. */
const ofFirstVersions: ChangeShare = { ofNamespace: 500, ofAll: 500 };

/** Namespaces whose Services nearly every pod uses: the API server's and DNS. */
const commonNamespaces: readonly string[] = ["default", "kube-system"];

/**
 * The cluster's network as each cell sees it. Objects of the API go in as they change; nothing is computed before the next
 * version, and then only what has changed, once for all cells.
 *
 * What policies mean is computed in blocks of about 10 ms, between which other work passes. A cell whose policy may be another
 * one is sent nothing until that is computed: it has the rules of before, whole, and then the new ones with all changes of
 * groups. So it never has new addresses with old rules, or the other way around.
 *
 * Groups look at pods that have changed in turns of the namespaces whose policies name them. A cell waits for the groups of its own
 * namespace and of administrators alone; until those are of one state of the cluster, it keeps what it has. What changes meanwhile
 * waits until cells have been served of that state, for half a second at most: see {@link ChangeIntake}.
 */
export class NetworkViews implements SharedLines {
  version = 0;
  readonly services = new ServiceLines();
  readonly index: ServiceIndex;
  readonly policies: PolicyIndex;
  readonly #options: NetworkViewsOptions;
  readonly #rules: SharedRules;
  readonly #subscribers = new Set<Subscriber>();
  readonly #affected = new AffectedPods();
  readonly #intake: ChangeIntake;
  readonly #turns: CellTurns<Subscriber>;
  /** Cells to be woken, as there is something for them. */
  readonly #behind = new Set<Subscriber>();
  #areAllBehind = false;
  #isComputing = false;
  #isScheduled = false;
  /** When the next version may be made, by the monotonic clock. */
  #nextAtMs = 0;

  constructor(options: NetworkViewsOptions) {
    this.#options = options;
    this.#intake = new ChangeIntake(options.clock, (err) =>
      options.logger?.error("Could not take a change of what network policies depend on", { err }),
    );
    this.policies = new PolicyIndex(options.most?.policies);
    const refusals = new RefusalLog(options, ofServices);
    const policies = new PolicyReports(options);
    this.policies.budget.onRefused = (refusal) => policies.refused(refusal);
    this.#rules = new SharedRules(this.policies, policies, options.most?.rules);
    this.#turns = new CellTurns({
      clock: options.clock,
      groups: this.groups,
      isFilled: (draft) => this.#rules.isFilled(draft),
      publish: () => this.#publish(),
      serve: (cell) => this.#replaceRules(cell),
    });
    this.index = new ServiceIndex(options.node, {
      onFailure: (service, err) =>
        options.logger?.error("Could not read a Service or its EndpointSlices", { service, err }),
      most: options.most?.services,
      onRefused: (refusal) => {
        const service = this.index.service(refusal.example);
        const about = service && referenceTo(service, { apiVersion: "v1", kind: "Service" });
        refusals.report(refusal, about);
      },
    });
  }

  /** Addresses of pods by the selectors of policies. */
  get groups(): AddressGroups {
    return this.policies.groups;
  }

  /** Name of the virtual node. */
  get nodeName(): string {
    return this.#options.node.name;
  }

  /** Takes the virtual node itself, by whose label hints for zones count. */
  setOwnNode({ metadata }: Node): void {
    if (this.index.setZone(metadata?.labels?.[zoneLabel])) this.#schedule();
  }

  setService(service: StoredService, isGone = false): void {
    const { namespace, name } = service.metadata;
    this.index.setService(`${namespace}/${name}`, isGone ? undefined : service);
    this.#schedule();
  }

  setSlice(slice: EndpointSlice, isGone = false): void {
    this.index.setSlice(slice, isGone);
    this.#intake.take(() => {
      this.policies.setSlice(slice, isGone);
      this.#schedule();
    });
    this.#schedule();
  }

  setNamespace(namespace: Namespace, isGone = false): void {
    this.#intake.take(() => this.#setNamespace(namespace, isGone));
  }

  #setNamespace({ metadata }: Namespace, isGone: boolean): void {
    const labels = isGone ? undefined : (metadata.labels ?? {});
    const before = this.groups.namespaceLabels(metadata.name);
    if (JSON.stringify(before) === JSON.stringify(labels)) return;
    this.groups.setNamespace(metadata.name, labels);
    // Policies of administrators choose pods by the labels of their namespaces.
    if (this.policies.hasTiers) this.#affected.noteNamespace(metadata.name);
    this.#schedule();
  }

  setPod(pod: Pod, isGone = false): void {
    this.#intake.take(() => this.#setPod(pod, isGone));
  }

  #setPod(pod: Pod, isGone: boolean): void {
    const { uid } = pod.metadata;
    if (this.policies.nodes.setPod(uid, isGone ? undefined : pod)) this.#schedule();
    const facts = isGone ? undefined : podFacts(pod);
    const before = this.groups.pod(uid);
    if (JSON.stringify(before) === JSON.stringify(facts)) return;
    this.groups.setPod(uid, facts);
    this.#affected.notePod(uid);
    this.#schedule();
  }

  /** Forgets all pods and namespaces: there is no policy, and they are no longer watched. */
  forgetPods(): void {
    this.#intake.take(() => this.#forgetPods());
  }

  #forgetPods(): void {
    // Pods first: each namespace looks for its own ones among all that are known.
    for (const uid of this.groups.podUids())
      if (uid !== standInUid) this.groups.setPod(uid, undefined);
    for (const name of this.groups.namespaces()) this.groups.setNamespace(name, undefined);
    this.policies.nodes.forgetPods();
    this.#schedule();
  }

  setPolicy(policy: NetworkPolicy, isGone = false): void {
    this.#intake.take(() => {
      this.#affected.notePolicy(this.policies.setPolicy(policy, isGone), policy.metadata.namespace);
      this.#schedule();
    });
  }

  /** Takes a node; its addresses are peers of policies of administrators. */
  setNode(node: Node, isGone = false): void {
    this.#intake.take(() => {
      this.policies.nodes.setNode(node.metadata?.name ?? "", isGone ? undefined : node);
      this.#schedule();
    });
  }

  /** Forgets all nodes: there is no policy that names any, and they are no longer watched. */
  forgetNodes(): void {
    this.#intake.take(() => {
      this.policies.nodes.forgetNodes();
      this.#schedule();
    });
  }

  /** Takes a policy of an administrator. */
  setTierPolicy(kind: TierKind, object: TierObject, isGone = false): void {
    this.#intake.take(() => this.#setTierPolicy(kind, object, isGone));
  }

  #setTierPolicy(kind: TierKind, object: TierObject, isGone: boolean): void {
    const { logger } = this.#options;
    const title = `${kind} ${object.metadata.name}`;
    const policy = isGone
      ? undefined
      : readTierPolicy(kind, object, ({ policy: named, problem }) =>
          logger?.error("Could not read a part of a network policy: it allows nothing", {
            policy: named,
            problem,
          }),
        );
    this.#affected.notePolicy(this.policies.setTierPolicy(title, policy));
    this.#schedule();
  }

  /**
   * Computes what is known of Services, in parts, so that other work passes in between. To be awaited before the first cell subscribes,
   * which otherwise has it computed at once. Does nothing once there is a cell.
   *
   * @throws the signal's reason
   */
  async settled(signal: AbortSignal): Promise<void> {
    const isBehind = (): boolean => this.#subscribers.size === 0 && this.index.isChanged;
    // What changes meanwhile is not waited for.
    for (let left = this.index.changedCount; left > 0 && isBehind(); left--) {
      signal.throwIfAborted();
      this.#flush(ofFirstVersions);
      await setImmediate();
    }
  }

  /** Lines of a group that a cell uses. */
  group(name: string): GroupLines | undefined {
    return this.#rules.group(name);
  }

  /**
   * Keeps a cell up to date from now on.
   *
   * @param cell the pod on it, and sums of the Services that it has already
   */
  subscribe(cell: {
    readonly podUid: string;
    readonly namespace: string;
    readonly sums: readonly number[];
    /** Whether the agent knows tiers of policies; otherwise directions that have some are closed. @default false */
    readonly knowsTiers?: boolean | undefined;
  }): ViewSubscription {
    const { clock } = this.#options;
    // The first cell is given no bucket without Services that it may have already.
    if (this.#subscribers.size === 0) this.#flush(allChanges);
    else if (this.index.isChanged && clock.monotonic() >= this.#nextAtMs) this.#flushAndPause();
    else this.#flush(undefined);
    const subscriber: Subscriber = {
      ...cell,
      knowsTiers: cell.knowsTiers ?? false,
      view: undefined,
      rules: undefined,
      draft: undefined,
      wake: () => {},
    };
    this.#subscribers.add(subscriber);
    // Its pod may be among the changes that wait.
    this.#intake.take(() => {
      if (this.#subscribers.has(subscriber)) this.#turns.add(subscriber);
      void this.#compute();
    });
    return {
      next: async (signal) => await this.#next(subscriber, signal),
      [Symbol.dispose]: () => {
        for (const cells of [this.#subscribers, this.#turns, this.#behind])
          cells.delete(subscriber);
        this.#rules.release(subscriber.rules);
        this.#rules.releaseDraft(subscriber.draft);
        subscriber.rules = undefined;
        subscriber.draft = undefined;
        void this.#compute(); // others may have room now
      },
    };
  }

  async #next(subscriber: Subscriber, signal: AbortSignal): Promise<readonly Buffer[]> {
    for (;;) {
      signal.throwIfAborted();
      const isLate = this.#isLate(subscriber);
      if (isLate) this.#behind.add(subscriber);
      const isHeld = isLate || this.#turns.has(subscriber);
      const change = isHeld ? undefined : subscriber.view?.next();
      if (change) return change;
      const { promise, resolve } = Promise.withResolvers<void>();
      subscriber.wake = resolve;
      await untilAborted(promise, signal);
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const { clock, signal } = this.#options;
    const waitMs = Math.max(0, this.#nextAtMs - clock.monotonic());
    // With nothing to wait for, it is a timer all the same: what comes at once is one version.
    void pause(waitMs, clock, signal).then((isOver) => {
      this.#isScheduled = false;
      if (!isOver) return;
      this.#flushAndPause();
      if (this.index.isChanged) this.#schedule();
    });
  }

  /** Makes the next version, and sets when the one after it may be made. */
  #flushAndPause(): void {
    const { clock, periodMs = defaultPeriodMs } = this.#options;
    const begunMs = clock.monotonic();
    this.#flush(this.#subscribers.size > 0 ? ofVersion : ofFirstVersions);
    const endMs = clock.monotonic();
    const areMoreFirst = this.#subscribers.size === 0 && this.index.isChanged;
    // All else that kip does has at least half of the time.
    this.#nextAtMs = areMoreFirst ? endMs : Math.max(begunMs + periodMs, 2 * endMs - begunMs);
  }

  /**
   * Makes the next version, if any Service has changed, and sees to policies.
   *
   * @param share how many Services; undefined for none
   */
  #flush(share: ChangeShare | undefined): void {
    const version = this.version + 1;
    for (const [key, view] of share ? this.index.takeChanges(share) : [])
      if (this.services.set(key, view, version)) this.version = version;
    if (this.version === version) this.#areAllBehind = true;
    this.#noteBehind();
    void this.#compute();
  }

  #noteBehind(): void {
    if (this.#areAllBehind) for (const each of this.#subscribers) this.#behind.add(each);
    this.#areAllBehind = false;
  }

  /** Finds what policies mean, and wakes cells for which there is something, until nothing of that is left. */
  async #compute(): Promise<void> {
    if (this.#isComputing) return;
    this.#isComputing = true;
    try {
      while (!this.#options.signal.aborted) {
        const isOver = this.#computeBlock(this.#options.clock.monotonic() + blockMs);
        if (isOver && this.#behind.size === 0) break;
        await setImmediate();
      }
    } finally {
      this.#isComputing = false;
    }
  }

  /** @returns whether all policies are computed, and what has changed of them is published */
  #computeBlock(untilMs: number): boolean {
    this.#intake.openIfDue();
    this.#turns.serve(untilMs);
    const isOver = this.#turns.isEmpty && this.groups.isSettled && !this.#rules.areSomeOutdated();
    // While policies are computed, cells hear of other changes at the usual times only.
    if (isOver) this.#noteBehind();
    else if (this.#areAllBehind) this.#schedule();
    let cells = 0;
    for (const subscriber of this.#behind) {
      if (this.#isLate(subscriber)) continue;
      if (++cells > cellsOfBlock) break;
      this.#behind.delete(subscriber);
      subscriber.wake();
    }
    // Cells that have yet to get their turns wait for no groups: new ones may come.
    if (this.groups.isSettled && this.#behind.size === 0) this.#intake.open();
    else this.#intake.hold();
    return isOver && this.#turns.isEmpty; // new cells may have waited
  }

  /** Whether groups that a cell has are not of one state of the cluster: it gets nothing until they are. */
  #isLate({ rules }: Subscriber): boolean {
    return rules?.owner !== undefined && this.groups.isLate(rules.owner);
  }

  /** Gives lines of groups their changes, and holds cells whose policy may be another one. */
  #publish(): void {
    const version = this.version + 1;
    for (const [name, change] of this.groups.takeChanges())
      if (this.#rules.change(name, change, version)) this.version = version;
    this.#affected.noteRules(this.#rules.takeOutdated());
    if (this.version === version) this.#areAllBehind = true;
    for (const subscriber of this.#affected.take(this.#subscribers, this.groups))
      this.#turns.add(subscriber);
  }

  /** Gives a cell the rules that its pod has now, if groups that they name are filled. */
  #replaceRules(subscriber: Subscriber): void {
    const { view, rules: before, draft: draftBefore, sums, namespace, knowsTiers } = subscriber;
    const { rules: wanted, draft } = this.#rulesOf(subscriber);
    subscriber.draft = draft;
    this.#rules.releaseDraft(draftBefore);
    if (draft) {
      this.#turns.awaitGroups(subscriber);
      return;
    }
    this.#turns.delete(subscriber);
    // Until a pod is known in whose namespace there are policies, nothing may pass; one that is gone keeps its rules until its cell ends.
    const rules = wanted ?? before ?? closedRules;
    if (rules !== before) {
      this.#rules.release(before);
      subscriber.rules = rules;
      const policy = knowsTiers ? rules.whole : rules.plain;
      const first = [...new Set([...commonNamespaces, namespace])];
      if (view) view.setPolicy(policy);
      else subscriber.view = new CellView(this, { sums, first, policy });
    } else if (wanted) this.#rules.release(wanted); // it was taken twice
    this.#behind.delete(subscriber);
    subscriber.wake();
  }

  /** What may pass to and from a pod; neither rules nor a draft if that depends on a pod that is not known. */
  #rulesOf(cell: Pick<Subscriber, "podUid" | "namespace" | "rules">): {
    readonly rules?: PodRules;
    readonly draft?: RulesDraft;
  } {
    const isMachine = cell.podUid === "";
    if (isMachine || !this.policies.concerns(cell.namespace)) return { rules: openRules };
    try {
      const choice = this.policies.choiceOf(cell.podUid);
      return choice ? this.#rules.take(choice, cell.rules) : {};
    } catch (err) {
      this.#options.logger?.error("Could not read the network policies of a pod", {
        podUid: cell.podUid,
        err,
      });
      return { rules: closedRules };
    }
  }
}
