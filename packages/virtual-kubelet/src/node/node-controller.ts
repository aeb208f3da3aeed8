import {
  backoffDelay,
  defined,
  every,
  isRetryable,
  pause,
  type Clock,
  type Logger,
} from "@kip/base";
import {
  createInformer,
  paths,
  type ApiClient,
  type EventRecorder,
  type KubeObject,
} from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import type { NodeFacts, PodProvider } from "../pod-provider.ts";
import { keepNodeLease } from "./node-lease.ts";
import { NodeObject } from "./node-object.ts";
import type { NodeIntervals, NodeOptions, NodeTaint } from "./node-options.ts";
import type { NodeIdentity, NotReady } from "./node-status.ts";
import { ProviderPing } from "./provider-ping.ts";

/** Options of {@link NodeController}. */
export interface NodeControllerOptions {
  readonly client: ApiClient;
  /** See `NodeOptions.nodeClient`. */
  readonly nodeClient?: ApiClient | undefined;
  readonly identity: NodeIdentity;
  readonly provider: PodProvider;
  readonly taints: readonly NodeTaint[];
  readonly intervals: NodeIntervals;
  readonly recorder: EventRecorder;
  readonly facts: NodeFacts;
  /** Whether the node has a Lease. Without one, its status is the heartbeat. */
  readonly hasLease: boolean;
  readonly onStatusError?: NodeOptions["onStatusError"] | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const backoff = { initialMs: 200, maxMs: 7000 };

/** Keeps a node registered: pings its provider, writes its status when it may have changed, and renews its Lease. */
export class NodeController {
  readonly #options: NodeControllerOptions;
  readonly #ping: ProviderPing;
  #facts: NodeFacts;
  /** Number of the last call of `nodeFacts`, and of the call that returned {@link NodeController.#facts}. */
  #questions = 0;
  #answered = 0;
  #unhealthy: NotReady | undefined;
  readonly #node: NodeObject;
  /** Whether the status may have to be written, and how to end the wait for that. */
  #isDue = false;
  #due = new AbortController();

  constructor(options: NodeControllerOptions) {
    const { client, clock, logger, provider, identity, intervals, signal } = options;
    this.#options = options;
    this.#facts = options.facts;
    this.#ping = new ProviderPing(provider, clock, intervals.pingTimeoutMs);
    this.#node = new NodeObject({
      client,
      nodeClient: options.nodeClient,
      identity,
      taints: options.taints,
      findings: () => ({ facts: this.#facts, problem: this.#unhealthy }),
      hasLease: options.hasLease,
      statusMs: intervals.statusMs,
      clock,
      logger,
      signal,
    });
    createInformer<Node>({
      client,
      path: paths.nodes(),
      query: { fieldSelector: `metadata.name=${identity.nodeName}` },
      onEvent: (event) => {
        if (event.type === "deleted") this.#deleted(event.object);
        else this.#node.seen(event.object);
      },
      clock,
      logger,
      signal,
    });
  }

  /** Why the provider cannot work, according to its last ping. */
  get problem(): NotReady | undefined {
    return this.#unhealthy;
  }

  /** Labels of the Node, see {@link NodeObject}. */
  get labels(): Readonly<Record<string, string>> | undefined {
    return this.#node.labels;
  }

  /** The node's resources for pods. */
  get allocatable(): Readonly<Record<string, string>> {
    return this.#facts.allocatable ?? this.#facts.capacity;
  }

  /**
   * Registers the node and writes its first status. Repeats while the API server is unreachable.
   *
   * @throws {K8sError} if the API server refuses it permanently
   */
  async register(): Promise<void> {
    const { clock, logger, signal } = this.#options;
    this.#unhealthy = await this.#ping.ping(signal);
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#node.register();
        return;
      } catch (error) {
        if (!isRetryable(error) || signal.aborted) throw error;
        logger.warn("Could not register the node", { err: error });
        await clock.sleep(backoffDelay(attempt, backoff, error), signal);
      }
    }
  }

  /** Keeps Lease, status and health up to date until the signal aborts. */
  async run(): Promise<void> {
    const { client, identity, intervals, clock, logger, signal, hasLease } = this.#options;
    const nodeUid = (): string | undefined => this.#node.uid;
    const { nodeName } = identity;
    const lease = { client, nodeName, nodeUid, intervals, clock, logger, signal };
    await Promise.all([
      hasLease && keepNodeLease(lease),
      this.#pingRepeatedly(),
      this.#writeWhenDue(),
    ]);
  }

  /** Call this when the provider's facts have changed. */
  async factsChanged(): Promise<void> {
    const question = ++this.#questions;
    try {
      const facts = await this.#options.provider.nodeFacts();
      if (question < this.#answered) return; // a newer answer arrived first
      this.#answered = question;
      this.#facts = facts;
    } catch (err) {
      this.#options.logger.warn("Could not ask the provider for the node's facts", { err });
      return;
    }
    await this.#writeInTurn();
  }

  async #pingRepeatedly(): Promise<void> {
    const { clock, intervals, logger, signal } = this.#options;
    const what = "ping the provider";
    const options = {
      intervalMs: intervals.pingMs,
      isImmediate: false,
      clock,
      logger,
      what,
      signal,
    };
    await every(options, async () => {
      const before = this.#unhealthy;
      this.#unhealthy = await this.#ping.ping(signal);
      if (signal.aborted) return;
      if (this.#unhealthy && !before)
        logger.warn("The provider became unhealthy", { ...this.#unhealthy });
      if (!this.#unhealthy && before) logger.info("The provider became healthy");
      this.#isDue = true;
      this.#due.abort();
    });
  }

  /**
   * Writes the status after each ping if needed. This is a separate loop, because a slow API server must not delay the pings.
   */
  async #writeWhenDue(): Promise<void> {
    const { clock, intervals, signal } = this.#options;
    while (!signal.aborted) {
      this.#due = new AbortController();
      const due = AbortSignal.any([signal, this.#due.signal]);
      if (!this.#isDue) await pause(intervals.statusMs, clock, due);
      this.#isDue = false;
      if (!signal.aborted) await this.#writeInTurn();
    }
  }

  async #writeInTurn(): Promise<void> {
    const { logger, onStatusError, signal } = this.#options;
    try {
      await this.#node.writeStatus();
    } catch (error) {
      if (signal.aborted) return;
      try {
        if (!onStatusError) throw error;
        await onStatusError(error, signal);
        await this.#node.writeStatus(); // the handler has fixed the cause
      } catch (err) {
        logger.warn("Could not write the node's status", { err });
      }
    }
  }

  #deleted(node: Node & KubeObject): void {
    const { logger, recorder, identity, signal } = this.#options;
    if (!this.#node.deleted(node) || signal.aborted) return;
    logger.warn("The Node object was deleted; registering it again");
    void this.register().then(
      () => {
        const { nodeName } = identity;
        const { uid } = this.#node;
        recorder.record(defined({ apiVersion: "v1", kind: "Node", name: nodeName, uid }), {
          type: "Normal",
          reason: "RegisteredNode",
          message: `Node ${nodeName} was registered again after its object was deleted`,
        });
      },
      (err: unknown) => {
        if (!signal.aborted) logger.error("Could not register the node again", { err });
      },
    );
  }
}
