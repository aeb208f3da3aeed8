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
import type { PolicyIndex } from "../policies/policy-index.ts";
import { readTierPolicy, type TierKind, type TierObject } from "../policies/tier-policy.ts";
import type { ChangeShare } from "../services/change-queue.ts";
import { ServiceIndex } from "../services/service-index.ts";
import { zoneLabel, type ViewNode } from "../services/usable-endpoints.ts";
import { blockMs } from "./cell-turns.ts";
import { FirstVersions } from "./first-versions.ts";
import type { GroupLines } from "./group-lines.ts";
import { PolicyEngine, type PolicyCell } from "./policy-engine.ts";
import { PolicyReports } from "./policy-reports.ts";
import { ofServices, RefusalLog } from "./refusal-log.ts";
import { ServiceLines } from "./service-lines.ts";

/** Options of {@link NetworkViews}. */
export interface NetworkViewsOptions {
  /** The virtual node. Its zone is used until {@link NetworkViews.setOwnNode} sets another one. */
  readonly node: ViewNode;
  readonly clock: Clock;
  /** Minimum time between two versions, milliseconds. Changes in between are in one version. The first change after a pause does not wait. @default 100 */
  readonly periodMs?: number | undefined;
  /** Is told of objects that cannot be read. @default nothing is logged */
  readonly logger?: Logger | undefined;
  /** Records events for Services that exceed the budget of their namespace. @default no events */
  readonly events?: Pick<EventRecorder, "record"> | undefined;
  /** The budgets of each namespace. @default maxServicesCost, maxPoliciesCost and maxRulesBytes */
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
   * Waits for the next change for the cell. Returns its lines in pieces. Call it again when the cell has confirmed the last change. All that
   * changes in between is one change.
   *
   * @throws the signal's reason
   */
  next(signal: AbortSignal): Promise<readonly Buffer[]>;
}

const defaultPeriodMs = 100;

/** Longest time that changes of objects for policies are held while the effect of earlier ones is computed, milliseconds. */
const maxHeldMs = 500;

/**
 * Limits for the changed Services in one version. For one namespace this is 1,000 per second. So no namespace delays the changes of others,
 * in kip or on cells, and a version is made in less than 100 ms.
 */
const ofVersion: ChangeShare = { perNamespace: 100, total: 500 };

/** The limits before there is a cell, when all Services are new. */
const ofFirstVersions: ChangeShare = { perNamespace: 500, total: 500 };

/**
 * Computes the view of the cluster's network for each cell. Its inputs are changes of API objects. A version is made at most every 100 ms,
 * and computes the changes once for all cells.
 *
 * Policies are computed in blocks of about 10 ms. Between blocks kip does other work. While the policy of a cell may change, nothing is sent to
 * the cell, and it keeps its old rules. Then it gets the new rules together with all changes of groups. So it never has new addresses with old
 * rules, or old addresses with new rules.
 *
 * Groups are updated after changes of pods, in turns of the namespaces whose policies name them. A cell only waits for the groups of its own
 * namespace and of administrators, until these show the same state of the cluster. Changes that arrive meanwhile are held until cells have
 * that state, for at most half a second. See {@link PolicyEngine}.
 */
export class NetworkViews {
  version = 0;
  readonly services = new ServiceLines();
  readonly index: ServiceIndex;
  readonly #options: NetworkViewsOptions;
  readonly #engine: PolicyEngine;
  readonly #firstVersions: FirstVersions;
  #isComputing = false;
  #isScheduled = false;
  /** When the next version may be made, by the monotonic clock. */
  #nextAtMs = 0;

  constructor(options: NetworkViewsOptions) {
    this.#options = options;
    const refusals = new RefusalLog(options, ofServices);
    this.#engine = new PolicyEngine({
      clock: options.clock,
      logger: options.logger,
      reports: new PolicyReports(options),
      most: options.most,
      lines: this,
      maxHeldMs: maxHeldMs,
      schedule: () => this.#schedule(),
      compute: () => void this.#compute(),
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
    this.#firstVersions = new FirstVersions({
      index: this.index,
      flush: () => this.#flush(ofFirstVersions),
      hasCells: () => this.#engine.cells.size > 0,
      signal: options.signal,
    });
  }

  /** The policies of pods. */
  get policies(): PolicyIndex {
    return this.#engine.policies;
  }

  /** Addresses of pods by the selectors of policies. */
  get groups(): AddressGroups {
    return this.policies.groups;
  }

  /** Name of the virtual node. */
  get nodeName(): string {
    return this.#options.node.name;
  }

  /** Sets the virtual node itself. Its label names the zone for hints of endpoints. */
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
    this.#engine.objects.setSlice(slice, isGone);
    this.#schedule();
  }

  setNamespace(namespace: Namespace, isGone = false): void {
    this.#engine.objects.setNamespace(namespace, isGone);
  }

  setPod(pod: Pod, isGone = false): void {
    this.#engine.objects.setPod(pod, isGone);
  }

  /** Removes all pods and namespaces. Call this when they are no longer watched, because there is no policy. */
  forgetPods(): void {
    this.#engine.objects.forgetPods();
  }

  setPolicy(policy: NetworkPolicy, isGone = false): void {
    this.#engine.objects.setPolicy(policy, isGone);
  }

  /** Sets or deletes a node. Administrators' policies may name its addresses as peers. */
  setNode(node: Node, isGone = false): void {
    this.#engine.objects.setNode(node, isGone);
  }

  /** Removes all nodes. Call this when they are no longer watched, because no policy names nodes. */
  forgetNodes(): void {
    this.#engine.objects.forgetNodes();
  }

  /** Sets or deletes an administrator's policy. */
  setTierPolicy(kind: TierKind, object: TierObject, isGone = false): void {
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
    this.#engine.objects.setTierPolicy(title, policy);
  }

  /**
   * Waits until all current Services are computed, in parts with other work in between. Does not wait for later changes. Resolves
   * immediately if there is a cell.
   *
   * @throws the signal's reason
   */
  async settled(signal: AbortSignal): Promise<void> {
    await this.#firstVersions.computed(signal);
  }

  /** Lines of a group that a cell uses. */
  group(name: string): GroupLines | undefined {
    return this.#engine.group(name);
  }

  /**
   * Keeps a cell up to date from now on. The first cell waits until all current Services are computed.
   *
   * @param cell the pod on it, and checksums of the Services that it already has
   */
  subscribe(cell: {
    readonly podUid: string;
    readonly namespace: string;
    readonly sums: readonly number[];
    /** Whether the agent supports tiers of policies. Otherwise directions with tiers are closed. @default false */
    readonly knowsTiers?: boolean | undefined;
    /** Whether the agent rejects lists with more than `limits.rulesOfEarlierAgents` rules. @default false */
    readonly hasShortLists?: boolean | undefined;
  }): ViewSubscription {
    const { clock } = this.#options;
    if (this.#engine.cells.size === 0)
      this.#flush(this.#firstVersions.isRunning ? undefined : ofFirstVersions);
    else if (this.index.isChanged && clock.monotonic() >= this.#nextAtMs) this.#flushAndPause();
    else this.#flush(undefined);
    const subscriber: PolicyCell = {
      ...cell,
      knowsTiers: cell.knowsTiers ?? false,
      hasShortLists: cell.hasShortLists ?? false,
      view: undefined,
      rules: undefined,
      draft: undefined,
      since: 0,
      heldSinceMs: undefined,
      wake: () => {},
    };
    const end = new AbortController();
    // Before the first version a bucket may seem empty. Then the cell would remove Services that it already has.
    if (this.#firstVersions.isBehind)
      void this.#firstVersions.computed(end.signal).then(
        () => this.#engine.add(subscriber),
        () => {}, // it is gone, or kip ends
      );
    else this.#engine.add(subscriber);
    return {
      next: async (signal) => await this.#next(subscriber, signal),
      [Symbol.dispose]: () => {
        end.abort();
        this.#engine.delete(subscriber);
      },
    };
  }

  async #next(subscriber: PolicyCell, signal: AbortSignal): Promise<readonly Buffer[]> {
    signal.throwIfAborted();
    const take = (): readonly Buffer[] | undefined =>
      this.#engine.isHeld(subscriber) ? undefined : subscriber.view?.next();
    const change = take();
    if (change) return change;
    const { promise, resolve } = Promise.withResolvers<readonly Buffer[]>();
    // Make the change as soon as the cell is woken, so that the time for it counts in the block.
    const wake = (): void => {
      const first = take();
      if (!first) return;
      subscriber.wake = () => {};
      resolve(first);
    };
    subscriber.wake = wake;
    try {
      return await untilAborted(promise, signal);
    } finally {
      if (subscriber.wake === wake) subscriber.wake = () => {};
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const { clock, signal } = this.#options;
    const waitMs = Math.max(0, this.#nextAtMs - clock.monotonic());
    // Always use a timer, even of 0 ms, so that changes that arrive together are in one version.
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
    this.#flush(this.#engine.cells.size > 0 ? ofVersion : ofFirstVersions);
    const endMs = clock.monotonic();
    const areMoreFirst = this.#engine.cells.size === 0 && this.index.isChanged;
    // Pause for as long as the work took, so that kip has at least half of its time for other work.
    this.#nextAtMs = areMoreFirst ? endMs : Math.max(begunMs + periodMs, 2 * endMs - begunMs);
  }

  /**
   * Makes the next version, if any Service has changed, and starts to compute policies.
   *
   * @param share limits for the Services. Undefined means none
   */
  #flush(share: ChangeShare | undefined): void {
    const version = this.version + 1;
    for (const [key, view] of share ? this.index.takeChanges(share) : [])
      if (this.services.set(key, view, version)) this.version = version;
    if (this.version === version) this.#engine.noteVersion();
    this.#engine.queueWakeups();
    void this.#compute();
  }

  /** Computes policies and wakes cells, block by block, until there is nothing to do. */
  async #compute(): Promise<void> {
    if (this.#isComputing) return;
    this.#isComputing = true;
    try {
      while (!this.#options.signal.aborted) {
        if (this.#engine.computeBlock(this.#options.clock.monotonic() + blockMs)) break;
        await setImmediate();
      }
    } finally {
      this.#isComputing = false;
    }
  }
}
