import { every, withTimeout, type Logger } from "@kip/base";
import { createEventRecorder, type ApiClient, type EventRecorder } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import { startKubeletApi, type KubeletTls, type RunningKubeletApi } from "../kubelet-api/index.ts";
import { measuredClient } from "../metrics/measured-client.ts";
import { NodeMetrics } from "../metrics/node-metrics.ts";
import type { NodeFacts, PodStatusUpdate, ProviderCallbacks } from "../pod-provider.ts";
import { PodController } from "../pods/pod-controller.ts";
import { noTracer } from "../tracing.ts";
import { kubeletApiFeatures } from "./declared-features.ts";
import { kubeletHandlers } from "./kubelet-handlers.ts";
import { NodeController } from "./node-controller.ts";
import { readNodeLabels } from "./node-object.ts";
import { nodeIntervals } from "./node-intervals.ts";
import type { NodeIntervals, NodeOptions, RunningNode } from "./node-options.ts";
import { NodeTls } from "./node-tls.ts";
import { keepServingCertificate } from "./serving-certificate.ts";

/** How long a stopping node waits for the terminal statuses of its pods to be written, milliseconds. */
const lastStatusesMs = 5000;

/** How long it then waits for its provider to stop, milliseconds. */
const providerStopMs = 10_000;

/** How long it finally waits for its events to be written, milliseconds. */
const lastEventsMs = 5000;

/**
 * Registers a node and runs the pods bound to it with a provider. Resolves when the node is registered and its pods are known.
 *
 * The order: the provider starts; the kubelet API listens; the API's pods are compared with the provider's; the node is
 * registered and becomes ready. Disposing reverses this and changes nothing in the cluster: the pods keep running, and the node
 * counts as ready until its Lease expires, so a restart within that time is not noticed. Terminal statuses of pods get five
 * seconds to be written.
 *
 * @throws {K8sError} if the API server refuses the node permanently; {VirtualKubeletError} `VK_LISTEN_FAILED` if the kubelet
 * API cannot listen
 */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  const node = new VirtualNode(options);
  try {
    await node.start();
    return node;
  } catch (error) {
    await node.stop();
    throw error;
  }
}

/** A node of one provider. {@link VirtualNode.start} runs its phases in order. */
class VirtualNode implements RunningNode {
  readonly #options: NodeOptions;
  readonly #client: ApiClient;
  readonly #nodeClient: ApiClient | undefined;
  readonly #logger: Logger;
  readonly #intervals: NodeIntervals;
  readonly #metrics: NodeMetrics;
  readonly #recorder: EventRecorder;
  readonly #stop = new AbortController();
  /** Undone by {@link VirtualNode.stop} in reverse order. */
  readonly #started = new AsyncDisposableStack();
  /** Statuses that the provider reports before the pods are watched. They must neither fail nor be lost. */
  readonly #bufferedStatuses = new Map<string, PodStatusUpdate>();
  #haveFactsChanged = false;
  #pods: PodController | undefined;
  #node: NodeController | undefined;
  #api: RunningKubeletApi | undefined;
  #tls: NodeTls | undefined;
  #background: Promise<unknown> | undefined;

  constructor(options: NodeOptions) {
    const { nodeName, nodeClient, clock, metrics = new NodeMetrics() } = options;
    this.#options = options;
    this.#metrics = metrics;
    this.#client = measuredClient(options.client, metrics);
    this.#nodeClient = nodeClient && measuredClient(nodeClient, metrics);
    this.#logger = options.logger.with({ node: nodeName });
    this.#intervals = nodeIntervals(options.intervals);
    this.#recorder = createEventRecorder({
      client: this.#client,
      component: "kubelet",
      host: nodeName,
      logger: this.#logger,
      clock,
    });
  }

  get kubeletPort(): number | undefined {
    return this.#api?.port ?? this.#options.kubeletPort;
  }

  async start(): Promise<void> {
    this.#stopWithSignal();
    await this.#startProvider();
    const facts = await this.#options.provider.nodeFacts();
    const pods = this.#watchPods(facts);
    this.#api = await this.#serveKubeletApi(pods);
    await pods.synced;
    await this.sweep();
    const node = this.#createNode(facts);
    await node.register();
    if (this.#haveFactsChanged) void node.factsChanged();
    this.#tls = this.#createTls();
    this.#background = this.#runInBackground(node, facts);
  }

  pods(): readonly Pod[] {
    return this.#pods?.list() ?? [];
  }

  findPod(namespace: string, name: string, uid?: string): Pod | undefined {
    return this.#pods?.find(namespace, name, uid);
  }

  async sweep(): Promise<void> {
    try {
      await this.#pods?.sweep();
    } catch (err) {
      if (!this.#stop.signal.aborted)
        this.#logger.warn("Could not compare the pods with the provider's", { err });
    }
  }

  replaceTls(tls: KubeletTls): void {
    this.#tls?.replace(tls);
  }

  /** Undoes what was started. */
  async stop(): Promise<void> {
    await this.#started.disposeAsync();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.#background;
    await this.#flush("events", lastEventsMs, () => this.#recorder.flush());
  }

  /** Aborting the caller's signal ends everything at once. */
  #stopWithSignal(): void {
    const { signal } = this.#options;
    const end = (): void => this.#stop.abort(signal?.reason);
    this.#started.defer(() => {
      signal?.removeEventListener("abort", end);
      this.#stop.abort();
    });
    signal?.throwIfAborted();
    signal?.addEventListener("abort", end, { once: true });
  }

  async #startProvider(): Promise<void> {
    const { provider, clock } = this.#options;
    // Only the provider may know these statuses. Without them, a pod that has succeeded would run again.
    this.#started.defer(() =>
      this.#flush("terminal statuses", lastStatusesMs, async () => this.#pods?.flushEnds()),
    );
    this.#started.defer(async () => {
      if (!provider.stop) return;
      try {
        await withTimeout(async () => provider.stop?.(), { clock, limitMs: providerStopMs });
      } catch (err) {
        this.#logger.warn("Could not stop the provider", { err });
      }
    });
    await provider.start(this.#callbacks());
  }

  #callbacks(): ProviderCallbacks {
    return {
      podStatus: (update) => {
        if (this.#pods) this.#pods.podStatus(update);
        else this.#bufferedStatuses.set(update.uid, update);
      },
      podEvent: (event) => this.#pods?.podEvent(event),
      nodeChanged: () => {
        if (this.#node) void this.#node.factsChanged();
        else this.#haveFactsChanged = true;
      },
      nodeLabels: () => this.#node?.labels,
      // Pods are admitted before the node is registered.
      readNodeLabels: async () =>
        await readNodeLabels(this.#client, this.#options.nodeName, this.#stop.signal),
    };
  }

  #watchPods(facts: NodeFacts): PodController {
    const { nodeName, provider, resolveEnv = true, tracer = noTracer, clock } = this.#options;
    const intervals = this.#intervals;
    const pods = new PodController({
      client: this.#client,
      nodeClient: this.#nodeClient,
      nodeName,
      provider,
      bufferedStatuses: this.#bufferedStatuses,
      recorder: this.#recorder,
      resolveEnv,
      allocatable: () => this.#node?.allocatable ?? facts.allocatable ?? facts.capacity,
      backoffMs: intervals.podBackoffMs,
      backoffMaxMs: intervals.podBackoffMaxMs,
      slowCallMs: intervals.slowCallMs,
      providerTimeoutMs: intervals.pingTimeoutMs,
      metrics: this.#metrics,
      tracer,
      clock,
      logger: this.#logger,
      signal: this.#stop.signal,
    });
    this.#pods = pods;
    this.#metrics.podCounts = () => pods.counts();
    this.#metrics.providerFamilies = () => provider.metricFamilies?.() ?? [];
    return pods;
  }

  async #serveKubeletApi(pods: PodController): Promise<RunningKubeletApi | undefined> {
    const { kubelet, nodeName, provider, clock } = this.#options;
    if (!kubelet) return undefined;
    const handlers = {
      ...kubeletHandlers({
        nodeName,
        provider,
        pods,
        intervals: this.#intervals,
        problem: () => this.#node?.problem,
      }),
      metrics: () => this.#metrics.text(),
    };
    return this.#started.use(
      await startKubeletApi({ ...kubelet, handlers, clock, logger: this.#logger }),
    );
  }

  #createNode(facts: NodeFacts): NodeController {
    const { nodeName, provider, providerName = "kip", clock } = this.#options;
    const { os = "linux", arch = "amd64", kubeletVersion = "v1.34.0-kip" } = this.#options;
    const taint = {
      key: "virtual-kubelet.io/provider",
      value: providerName,
      effect: "NoSchedule",
    } as const;
    this.#node = new NodeController({
      client: this.#client,
      nodeClient: this.#nodeClient,
      identity: {
        nodeName,
        os,
        arch,
        kubeletVersion,
        kubeletPort: this.kubeletPort,
        features: this.#api ? kubeletApiFeatures : [],
      },
      provider,
      taints: this.#options.taints ?? [taint],
      intervals: this.#intervals,
      hasLease: this.#options.lease !== false,
      onStatusError: this.#options.onStatusError,
      recorder: this.#recorder,
      facts,
      clock,
      logger: this.#logger,
      signal: this.#stop.signal,
    });
    return this.#node;
  }

  #createTls(): NodeTls | undefined {
    const { kubelet, reloadTls, clock } = this.#options;
    if (!this.#api || !kubelet) return undefined;
    return new NodeTls({
      api: this.#api,
      tls: kubelet,
      reload: reloadTls,
      clock,
      logger: this.#logger,
      signal: this.#stop.signal,
    });
  }

  /** Resolves when the node has stopped. */
  async #runInBackground(node: NodeController, facts: NodeFacts): Promise<void> {
    await Promise.all([
      node.run(),
      this.#sweepRepeatedly(),
      this.#keepCertificate(facts),
      this.#tls?.run(),
    ]);
  }

  /** Finds changes whose events were missed. */
  async #sweepRepeatedly(): Promise<void> {
    const options = {
      intervalMs: this.#intervals.sweepMs,
      isImmediate: false,
      clock: this.#options.clock,
      logger: this.#logger,
      what: "compare the pods with the provider's",
      signal: this.#stop.signal,
    };
    await every(options, async () => this.#pods?.sweep());
  }

  async #keepCertificate(facts: NodeFacts): Promise<void> {
    const { nodeName, requestCertificate = false, certificateSigner, clock } = this.#options;
    const tls = this.#tls;
    if (!tls || !requestCertificate) return;
    await keepServingCertificate({
      client: this.#nodeClient ?? this.#client,
      nodeName,
      ipAddresses: [facts.internalIp, ...(facts.otherInternalIps ?? [])],
      signerName: certificateSigner,
      onCertificate: (pair) => tls.useIssued(pair),
      clock,
      logger: this.#logger,
      signal: this.#stop.signal,
    });
  }

  /** Waits for writes with a time limit, because an unreachable API server must not delay the end of the node. */
  async #flush(what: string, limitMs: number, write: () => Promise<void>): Promise<void> {
    try {
      await withTimeout(write, { clock: this.#options.clock, limitMs });
    } catch (err) {
      this.#logger.warn(`Could not write all ${what} before the node ended`, { err });
    }
  }
}
