import { isDeepStrictEqual } from "node:util";
import {
  backoffDelay,
  defined,
  every,
  isRetryable,
  pause,
  SerialQueue,
  type Clock,
  type Logger,
} from "@kip/base";
import {
  K8sError,
  isNotFound,
  isAlreadyExists,
  createInformer,
  paths,
  wireTime,
  type ApiClient,
  type EventRecorder,
  type KubeObject,
} from "@kip/k8s-client";
import type { Node } from "@kip/k8s-types";
import type { NodeFacts, PodProvider } from "../pod-provider.ts";
import { declarable } from "./declared-features.ts";
import { keepNodeLease } from "./node-lease.ts";
import type { NodeIntervals, NodeOptions, NodeTaint } from "./node-options.ts";
import {
  hasTaints,
  nodeConditions,
  nodeLabels,
  nodeStatus,
  type NodeIdentity,
  type NotReady,
} from "./node-status.ts";
import { ProviderPing } from "./provider-ping.ts";

/** Options of {@link NodeController}. */
export interface NodeControllerOptions {
  readonly client: ApiClient;
  readonly identity: NodeIdentity;
  readonly provider: PodProvider;
  readonly taints: readonly NodeTaint[];
  readonly intervals: NodeIntervals;
  readonly recorder: EventRecorder;
  readonly facts: NodeFacts;
  /** Whether the node has a Lease; without one the status is its heartbeat. */
  readonly hasLease: boolean;
  readonly onStatusError?: NodeOptions["onStatusError"] | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const fieldManager = "virtual-kubelet";
const backoff = { initialMs: 200, maxMs: 7000 };

/**
 * The Node object: registration, status, heartbeats by Lease. The status is server-side applied, so
 * that what others put on the node stays and what the provider dropped goes.
 */
export class NodeController {
  readonly #options: NodeControllerOptions;
  readonly #ping: ProviderPing;
  #facts: NodeFacts;
  /** Number of the last call of `nodeFacts`, and of the call that {@link NodeController.#facts} are from. */
  #questions = 0;
  #answered = 0;
  #unhealthy: NotReady | undefined;
  #node: Node | undefined;
  #written: unknown;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #isRegistered = false;
  #declared: readonly string[] = [];
  /** Whether a write of the status may be needed, and what ends the wait for it. */
  #isDue = false;
  #due = new AbortController();
  /** One write of the Node at a time. */
  readonly #writes = new SerialQueue();

  constructor(options: NodeControllerOptions) {
    const { client, clock, logger, provider, identity, intervals, signal } = options;
    this.#options = options;
    this.#facts = options.facts;
    this.#ping = new ProviderPing(provider, clock, intervals.pingTimeoutMs);
    createInformer<Node & KubeObject>({
      client,
      path: paths.nodes(),
      query: { fieldSelector: `metadata.name=${identity.nodeName}` },
      onEvent: (event) => {
        if (event.type === "deleted") this.#deleted(event.object);
        else this.#node = event.object;
      },
      clock,
      logger,
      signal,
    });
  }

  /** Why the provider cannot work now, as its last ping had it. */
  get problem(): NotReady | undefined {
    return this.#unhealthy;
  }

  /** What pods can have of the node. */
  get allocatable(): Readonly<Record<string, string>> {
    return this.#facts.allocatable ?? this.#facts.capacity;
  }

  /**
   * Registers the node and writes its first status; repeats while the API server is out of reach.
   *
   * @throws {CodedError} if the API server refuses it for good
   */
  async register(): Promise<void> {
    const { clock, logger, signal } = this.#options;
    this.#unhealthy = await this.#ping.ping(signal);
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#writes.run(() => this.#ensure());
        return;
      } catch (error) {
        if (!isRetryable(error) || signal.aborted) throw error;
        logger.warn("Could not register the node", { err: error });
        await clock.sleep(backoffDelay(attempt, backoff, error), signal);
      }
    }
  }

  /** Keeps lease, status and health up to date until the signal aborts. */
  async run(): Promise<void> {
    const { client, identity, intervals, clock, logger, signal, hasLease } = this.#options;
    const nodeUid = (): string | undefined => this.#uid;
    const { nodeName } = identity;
    const lease = { client, nodeName, nodeUid, intervals, clock, logger, signal };
    await Promise.all([
      hasLease && keepNodeLease(lease),
      this.#pingRepeatedly(),
      this.#writeWhenDue(),
    ]);
  }

  /** The provider's facts changed. */
  async factsChanged(): Promise<void> {
    const question = ++this.#questions;
    try {
      const facts = await this.#options.provider.nodeFacts();
      if (question < this.#answered) return; // overtaken by a newer answer
      this.#answered = question;
      this.#facts = facts;
    } catch (err) {
      this.#options.logger.warn("Could not ask the provider for the node's facts", { err });
      return;
    }
    await this.#writeInTurn();
  }

  get #uid(): string | undefined {
    return this.#node?.metadata?.uid;
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

  /** Writes the status after each ping, if needed. It is a loop of its own because a slow API server must not delay the pings. */
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
      await this.#writes.run(() => this.#writeStatus());
    } catch (error) {
      if (signal.aborted) return;
      try {
        if (!onStatusError) throw error;
        await onStatusError(error, signal);
        await this.#writes.run(() => this.#writeStatus()); // the handler has repaired the cause
      } catch (err) {
        logger.warn("Could not write the node's status", { err });
      }
    }
  }

  #deleted(node: Node): void {
    const { logger, recorder, identity, signal } = this.#options;
    // Our own registration may have made a new one already.
    if (this.#node && this.#uid !== node.metadata?.uid) return;
    this.#node = undefined;
    this.#written = undefined;
    if (!this.#isRegistered || signal.aborted) return;
    logger.warn("The Node object was deleted; registering it again");
    void this.register().then(
      () => {
        const about = { apiVersion: "v1", kind: "Node", name: identity.nodeName, uid: this.#uid };
        recorder.record(defined(about), {
          type: "Normal",
          reason: "RegisteredNode",
          message: `Node ${identity.nodeName} was registered again after its object was deleted`,
        });
      },
      (err: unknown) => {
        if (!signal.aborted) logger.error("Could not register the node again", { err });
      },
    );
  }

  /** Creates the Node if it is not there, brings its taints in, and writes its status. */
  async #ensure(): Promise<void> {
    const { client, identity, logger, signal } = this.#options;
    const path = paths.nodes(identity.nodeName);
    try {
      this.#node = await client.get<Node>(path, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#node = await this.#create();
      logger.info("Registered the node");
    }
    await this.#addTaints(this.#node);
    this.#declared = await declarable(client, identity.features, signal);
    this.#written = undefined;
    await this.#writeStatus();
    this.#isRegistered = true;
  }

  async #create(): Promise<Node> {
    const { client, identity, taints, signal } = this.#options;
    const node: Node = {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: identity.nodeName, labels: { ...nodeLabels(identity) } },
      spec: defined({
        taints: taints.map((taint) => ({ ...taint })),
        providerID: this.#facts.providerId,
      }),
    };
    try {
      return await client.create<Node>(paths.nodes(), node, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return client.get<Node>(paths.nodes(identity.nodeName), { signal });
    }
  }

  /** The list of taints has one owner for all, so ours are added to what is there. */
  async #addTaints(node: Node): Promise<void> {
    const { client, identity, taints, logger, signal } = this.#options;
    const providerID = this.#facts.providerId;
    const needsId = providerID !== undefined && (node.spec?.providerID ?? "") === "";
    if (hasTaints(node, taints) && !needsId) return;
    const own = new Set(taints.map(({ key, effect }) => `${key} ${effect}`));
    const others = (node.spec?.taints ?? []).filter(
      ({ key, effect }) => !own.has(`${key} ${effect}`),
    );
    const { resourceVersion } = node.metadata ?? {};
    const patch = {
      metadata: { resourceVersion },
      spec: { taints: [...others, ...taints], providerID: needsId ? providerID : undefined },
    };
    try {
      await client.patch(paths.nodes(identity.nodeName), patch, "merge", { signal, fieldManager });
    } catch (error) {
      // Roles for the original virtual-kubelet allow to create nodes and to write their status only.
      if (!K8sError.is(error, "K8S_FORBIDDEN", "K8S_INVALID")) throw error;
      logger.warn("Could not set the node's taints", { err: error });
    }
  }

  /** Writes the status if it has changed, or was not written for `statusMs`. */
  async #writeStatus(): Promise<void> {
    const { client, clock, hasLease, identity, intervals, signal } = this.#options;
    const now = clock.now();
    const notReady = this.#facts.notReady ?? this.#unhealthy;
    const known = this.#node?.status?.conditions ?? [];
    const conditions = nodeConditions(known, notReady, wireTime(now));
    const metadata = {
      name: identity.nodeName,
      labels: { ...nodeLabels(identity), ...this.#facts.labels },
      annotations: { ...this.#facts.annotations },
    };
    const content = {
      metadata,
      status: nodeStatus(identity, this.#facts, conditions, this.#declared),
    };
    const substance = { ...content, status: { ...content.status, conditions: notReady ?? true } };
    const ready = known.find(({ type }) => type === "Ready")?.status;
    const isCurrent =
      isDeepStrictEqual(this.#written, substance) &&
      ready === (notReady ? "False" : "True") &&
      hasLease &&
      clock.monotonic() - this.#writtenAt < intervals.statusMs;
    if (isCurrent) return;
    const body = { apiVersion: "v1", kind: "Node", ...content };
    try {
      this.#node = await client.patch<Node>(
        paths.nodes(identity.nodeName, "status"),
        body,
        "apply",
        { force: true, fieldManager, signal, isUrgent: true },
      );
    } catch (error) {
      if (!isNotFound(error) || !this.#isRegistered) throw error;
      this.#isRegistered = false; // no second try from in here
      try {
        await this.#ensure();
      } finally {
        this.#isRegistered = true; // it was once: the next write tries again
      }
      return;
    }
    this.#written = substance;
    this.#writtenAt = clock.monotonic();
  }
}
