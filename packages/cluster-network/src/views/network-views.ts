import type { Node, Pod } from "@kip/k8s-types";
import type {
  EndpointSlice,
  Namespace,
  NetworkPolicy,
  StoredService,
} from "@kip/k8s-types/network";
import { pause, untilAborted, type Clock, type Logger } from "@kip/base";
import type { EventRecorder } from "@kip/k8s-client";
import type { PolicyView } from "@kip/network-view";
import type { AddressGroups } from "../policies/address-groups.ts";
import { podFacts } from "../policies/pod-facts.ts";
import { nodeFacts } from "../policies/node-facts.ts";
import { PolicyIndex } from "../policies/policy-index.ts";
import { standInUid } from "../policies/stand-in.ts";
import { readTierPolicy, type TierKind, type TierObject } from "../policies/tier-policy.ts";
import { ServiceIndex } from "../services/service-index.ts";
import type { ViewNode } from "../services/usable-endpoints.ts";
import { CellView, groupsOf, type SharedLines } from "./cell-view.ts";
import { fittingPolicy } from "./fitting-policy.ts";
import { GroupLines } from "./group-lines.ts";
import { RefusalLog } from "./refusal-log.ts";
import { ServiceLines } from "./service-lines.ts";

/** Options of {@link NetworkViews}. */
export interface NetworkViewsOptions {
  readonly node: ViewNode;
  readonly clock: Clock;
  /** Least time between two versions, milliseconds: changes in between are one. The first after a pause waits for none. @default 100 */
  readonly periodMs?: number | undefined;
  /** Is told of objects that cannot be read. @default nothing is logged */
  readonly logger?: Logger | undefined;
  /** Is given events of Services that there is no room for. @default there are none */
  readonly events?: Pick<EventRecorder, "record"> | undefined;
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
  readonly view: CellView;
  /** The policy that the view was made from, to find out whether it is another one. */
  policy: string;
  groups: ReadonlySet<string>;
  wake: () => void;
}

const defaultPeriodMs = 100;

/**
 * How many Services of one namespace a version has: 1,000 changes per second. One namespace cannot keep the changes of
 * others back, on kip or on cells.
 */
const mostOfNamespace = 100;

/** Nothing passes. */
const closedPolicy: PolicyView = { ingress: [], egress: [] };

/** Namespaces whose Services nearly every pod uses: the API server's and DNS. */
const commonNamespaces: readonly string[] = ["default", "kube-system"];

/**
 * The cluster's network as each cell sees it. Objects of the API go in as they change; nothing is computed before the next
 * version, and then only what has changed, once for all cells.
 */
export class NetworkViews implements SharedLines {
  version = 0;
  readonly services = new ServiceLines();
  readonly index: ServiceIndex;
  readonly policies = new PolicyIndex();
  readonly #options: NetworkViewsOptions;
  readonly #groupLines = new Map<string, GroupLines>();
  readonly #subscribers = new Set<Subscriber>();
  /** Namespaces whose pods may have other policies now. */
  readonly #changedNamespaces = new Set<string>();
  readonly #changedPods = new Set<string>();
  #arePortsChanged = false;
  /** Every pod may have another policy now. */
  #areAllChanged = false;
  #isScheduled = false;
  /** When the next version may be made, by the monotonic clock. */
  #nextAtMs = 0;

  constructor(options: NetworkViewsOptions) {
    this.#options = options;
    const refusals = new RefusalLog(options);
    this.index = new ServiceIndex(options.node, {
      onFailure: (service, err) =>
        options.logger?.error("Could not read a Service or its EndpointSlices", { service, err }),
      onRefused: (refusal) => refusals.report(refusal, this.index.service(refusal.example)),
    });
  }

  /** Addresses of pods by the selectors of policies. */
  get groups(): AddressGroups {
    return this.policies.groups;
  }

  setService(service: StoredService, isGone = false): void {
    const { namespace, name } = service.metadata;
    this.index.setService(`${namespace}/${name}`, isGone ? undefined : service);
    this.#schedule();
  }

  setSlice(slice: EndpointSlice, isGone = false): void {
    this.index.setSlice(slice, isGone);
    if (this.policies.setSlice(slice, isGone)) this.#arePortsChanged = true;
    this.#schedule();
  }

  setNamespace({ metadata }: Namespace, isGone = false): void {
    const labels = isGone ? undefined : (metadata.labels ?? {});
    const before = this.groups.namespaceLabels(metadata.name);
    if (JSON.stringify(before) === JSON.stringify(labels)) return;
    // Other peers may have other numbers for a named port.
    this.#arePortsChanged = true;
    this.groups.setNamespace(metadata.name, labels);
    // Policies of administrators choose pods by the labels of their namespaces.
    if (this.policies.hasTiers) this.#changedNamespaces.add(metadata.name);
    this.#schedule();
  }

  setPod(pod: Pod, isGone = false): void {
    const { uid } = pod.metadata;
    const facts = isGone ? undefined : podFacts(pod);
    const before = this.groups.pod(uid);
    if (JSON.stringify(before) === JSON.stringify(facts)) return;
    if ((facts ?? before)?.ports.length) this.#arePortsChanged = true;
    this.groups.setPod(uid, facts);
    this.#changedPods.add(uid);
    this.#schedule();
  }

  /** Forgets all pods: there is no policy, and they are no longer watched. */
  forgetPods(): void {
    for (const [uid] of this.groups.pods())
      if (uid !== standInUid) this.groups.setPod(uid, undefined);
  }

  setPolicy(policy: NetworkPolicy, isGone = false): void {
    this.policies.setPolicy(policy, isGone);
    this.#changedNamespaces.add(policy.metadata.namespace);
    this.#schedule();
  }

  /** Takes a node; its addresses are peers of policies of administrators. */
  setNode(node: Node, isGone = false): void {
    this.groups.setNode(node.metadata?.name ?? "", isGone ? undefined : nodeFacts(node));
    this.#schedule();
  }

  /** Forgets all nodes: there is no policy that names any, and they are no longer watched. */
  forgetNodes(): void {
    for (const name of this.groups.nodes()) this.groups.setNode(name, undefined);
  }

  /** Takes a policy of an administrator; what it means for pods is computed for all of them. */
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
    this.policies.setTierPolicy(title, policy);
    this.#areAllChanged = true;
    this.#schedule();
  }

  /** Lines of a group that a cell uses. */
  group(name: string): GroupLines | undefined {
    return this.#groupLines.get(name);
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
    this.#flush();
    // Until a pod is known in whose namespace there are policies, nothing may pass.
    const wanted = this.#viewOf(cell) ?? closedPolicy;
    const knowsTiers = cell.knowsTiers ?? false;
    const policy = fittingPolicy(wanted, this.groups, knowsTiers);
    const groups = this.#use(policy);
    const namespaces = new Set([...commonNamespaces, cell.namespace]);
    const view = new CellView(this, { sums: cell.sums, first: [...namespaces], policy });
    const subscriber: Subscriber = {
      podUid: cell.podUid,
      namespace: cell.namespace,
      knowsTiers,
      view,
      policy: JSON.stringify(wanted),
      groups,
      wake: () => {},
    };
    this.#subscribers.add(subscriber);
    return {
      next: async (signal) => await this.#next(subscriber, signal),
      [Symbol.dispose]: () => {
        this.#subscribers.delete(subscriber);
        for (const name of subscriber.groups) this.#release(name);
      },
    };
  }

  async #next(subscriber: Subscriber, signal: AbortSignal): Promise<readonly Buffer[]> {
    for (;;) {
      signal.throwIfAborted();
      const change = subscriber.view.next();
      if (change) return change;
      const { promise, resolve } = Promise.withResolvers<void>();
      subscriber.wake = resolve;
      await untilAborted(promise, signal);
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const { clock, periodMs = defaultPeriodMs, signal } = this.#options;
    const waitMs = Math.max(0, this.#nextAtMs - clock.monotonic());
    // With nothing to wait for, it is a timer all the same: what comes at once is one version.
    void pause(waitMs, clock, signal).then((isOver) => {
      this.#isScheduled = false;
      if (!isOver) return;
      this.#nextAtMs = clock.monotonic() + periodMs;
      this.#flush();
      if (this.index.isChanged) this.#schedule();
    });
  }

  /** Makes the next version, if anything has changed. */
  #flush(): void {
    const version = this.version + 1;
    let isChanged = false;
    // Before there is a cell, everything is listed for the first time.
    const most = this.#subscribers.size > 0 ? mostOfNamespace : undefined;
    for (const [key, view] of this.index.takeChanges(most))
      if (this.services.set(key, view, version)) isChanged = true;
    for (const [name, change] of this.groups.takeChanges()) {
      this.#groupLines.get(name)?.change(change, version);
      isChanged = true;
    }
    const replaced = this.#affected().filter((subscriber) => this.#replacePolicy(subscriber));
    this.groups.prune();
    if (isChanged) this.version = version;
    for (const { wake } of isChanged ? this.#subscribers : replaced) wake();
  }

  /** Cells whose policy may be another one. */
  #affected(): readonly Subscriber[] {
    const arePortsChanged = this.#arePortsChanged;
    const result = [...this.#subscribers].filter(({ podUid, namespace }) => {
      if (this.#areAllChanged) return true;
      if (this.#changedNamespaces.has(namespace) || this.#changedPods.has(podUid)) return true;
      return arePortsChanged && this.policies.dependsOnPorts(namespace);
    });
    this.#arePortsChanged = false;
    this.#areAllChanged = false;
    this.#changedNamespaces.clear();
    this.#changedPods.clear();
    return result;
  }

  /** What may pass to and from a pod; undefined if that depends on a pod that is not known. */
  #viewOf(cell: Pick<Subscriber, "podUid" | "namespace">): PolicyView | undefined {
    const isMachine = cell.podUid === "";
    if (isMachine || !this.policies.concerns(cell.namespace)) return {};
    try {
      return this.policies.policyOf(cell.podUid)?.view;
    } catch (err) {
      this.#options.logger?.error("Could not read the network policies of a pod", {
        podUid: cell.podUid,
        err,
      });
      return closedPolicy;
    }
  }

  /** Returns whether it is another one. */
  #replacePolicy(subscriber: Subscriber): boolean {
    const wanted = this.#viewOf(subscriber);
    // A pod that is gone keeps its rules until its cell ends.
    const text = wanted && JSON.stringify(wanted);
    if (!wanted || text === undefined || text === subscriber.policy) return false;
    subscriber.policy = text;
    const policy = fittingPolicy(wanted, this.groups, subscriber.knowsTiers);
    const before = subscriber.groups;
    subscriber.groups = this.#use(policy);
    for (const name of before) this.#release(name);
    subscriber.view.setPolicy(policy);
    return true;
  }

  #use(policy: PolicyView): ReadonlySet<string> {
    const names = groupsOf(policy);
    for (const name of names) {
      this.groups.use(name, 1);
      if (!this.#groupLines.has(name))
        this.#groupLines.set(name, new GroupLines(name, this.groups.addresses(name)));
    }
    return names;
  }

  #release(name: string): void {
    if (this.groups.use(name, -1) === 0) this.#groupLines.delete(name);
  }
}
