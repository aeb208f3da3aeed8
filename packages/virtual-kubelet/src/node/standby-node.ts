import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { backoffDelay, pause, withTimeout } from "@kip/base";
import { createLeaderLease, type LeaderTerm } from "@kip/k8s-client";
import type { PodProvider } from "../pod-provider.ts";
import { Fence } from "./fence.ts";
import type { NodeOptions, RunningNode } from "./node-options.ts";
import { startNode } from "./start-node.ts";

/** The Lease that decides which replica of a node is active. */
export interface StandbyOptions {
  /** Namespace of the Lease. @default "kube-node-lease" */
  readonly namespace?: string | undefined;
  /** Name of the Lease. @default `<nodeName>.virtual-kubelet` */
  readonly leaseName?: string | undefined;
  /** How long after the last renewal another replica takes over, milliseconds, whole seconds. @default 15000 */
  readonly durationMs?: number | undefined;
  /** Unique name of this replica in the Lease. @default host name and a random part */
  readonly identity?: string | undefined;
}

/** Options of {@link startStandbyNode}. */
export interface StandbyNodeOptions extends Omit<NodeOptions, "provider" | "signal"> {
  /** Creates the provider. Called at the start of each term of this replica. */
  readonly provider: () => PodProvider | Promise<PodProvider>;
  readonly standby?: StandbyOptions | undefined;
}

/** A replica of a node. Disposing it hands the node over at once. Its pods keep running. */
export interface StandbyNode extends AsyncDisposable {
  /** The node, while this replica is active. */
  readonly node: RunningNode | undefined;
  /** Resolves when this replica becomes active for the first time. */
  readonly active: Promise<RunningNode>;
}

const defaultDurationMs = 15_000;
const backoff = { initialMs: 500, maxMs: 30_000 };

/** How long running calls of the provider may take to end before a hand-over, milliseconds. */
const lastCallsMs = 5000;

/**
 * Runs a node with several replicas. The holder of a Lease is active, and the others wait. Two replicas never handle the same
 * pod: a replica that could not renew the Lease for two thirds of its duration stops by itself, and it also checks this before
 * each call that changes a pod.
 */
export function startStandbyNode(options: StandbyNodeOptions): StandbyNode {
  return new Replica(options);
}

class Replica implements StandbyNode {
  readonly active: Promise<RunningNode>;
  readonly #options: StandbyNodeOptions;
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<RunningNode>();
  readonly #running: Promise<void>;
  #node: RunningNode | undefined;

  constructor(options: StandbyNodeOptions) {
    this.#options = options;
    this.active = this.#first.promise;
    this.active.catch(() => {}); // callers need not wait for it
    this.#running = this.#run();
  }

  get node(): RunningNode | undefined {
    return this.#node;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { client, nodeName, clock, logger, standby = {} } = this.#options;
    const lease = createLeaderLease({
      client,
      namespace: standby.namespace ?? "kube-node-lease",
      name: standby.leaseName ?? `${nodeName}.virtual-kubelet`,
      identity: standby.identity ?? `${hostname()}_${randomUUID()}`,
      durationMs: standby.durationMs ?? defaultDurationMs,
      clock,
      logger,
    });
    for (let failures = 0; !this.#stop.signal.aborted;) {
      try {
        const term = await lease.acquire(this.#stop.signal);
        logger.info("Became the active replica of the node", { node: nodeName, term: term.number });
        await this.#serve(term);
        failures = 0;
      } catch (error) {
        if (this.#stop.signal.aborted) break;
        logger.error("Could not run the node", { err: error });
        const pauseMs = backoffDelay(failures++, backoff, error);
        await pause(pauseMs, clock, this.#stop.signal);
      }
    }
    this.#first.reject(new Error("The replica was stopped before it ran the node"));
  }

  async #serve(term: LeaderTerm): Promise<void> {
    const { standby: _, ...options } = this.#options;
    const { clock, logger, nodeName } = options;
    const signal = AbortSignal.any([this.#stop.signal, term.ended]);
    // Disposing stops a running node and waits for its last writes. The end of the term stops it at once.
    const ending = new AbortController();
    const end = (): void => ending.abort();
    term.ended.addEventListener("abort", end, { once: true });
    this.#stop.signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    let fence: Fence | undefined;
    try {
      fence = new Fence(await options.provider(), term);
      await using node = await startNode({
        ...options,
        provider: fence.provider,
        signal: ending.signal,
      });
      this.#stop.signal.removeEventListener("abort", end);
      this.#node = node;
      this.#first.resolve(node);
      await pause(Number.POSITIVE_INFINITY, clock, signal);
      logger.info("Stopped being the active replica of the node", { node: nodeName });
    } finally {
      this.#stop.signal.removeEventListener("abort", end);
      this.#node = undefined;
      await this.#handOver(term, fence);
    }
  }

  /**
   * Releases the term, unless a call that ignores its signal may still change a pod. In that case the Lease expires by itself.
   */
  async #handOver(term: LeaderTerm, fence: Fence | undefined): Promise<void> {
    const { clock, logger } = this.#options;
    try {
      await withTimeout(async () => fence?.idle(), { limitMs: lastCallsMs, clock });
    } catch (err) {
      logger.warn("Could not hand the node over: a call of the provider goes on", { err });
    }
    await term.release(fence?.isBusy !== true);
  }
}
