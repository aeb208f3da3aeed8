import { defined, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  paths,
  referenceTo,
  type ApiClient,
  type EventRecorder,
  type Informer,
  type InformerEvent,
  type RecordedEvent,
} from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { NodeMetrics, PodCounts } from "../metrics/node-metrics.ts";
import type { PodEvent, PodProvider, PodStatusUpdate } from "../pod-provider.ts";
import type { Tracer } from "../tracing.ts";
import { createTokenSource } from "../volumes/token-source.ts";
import { PodWorker } from "./pod-worker.ts";
import { PodResolver } from "./pod-resolver.ts";
import { PodSweep } from "./pod-sweep.ts";

/** Options of {@link PodController}. */
export interface PodControllerOptions {
  readonly client: ApiClient;
  /** See `NodeOptions.nodeClient`. */
  readonly nodeClient?: ApiClient | undefined;
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** Statuses that the provider reported before the pods were listed, by UID. The controller removes them. */
  readonly bufferedStatuses: Map<string, PodStatusUpdate>;
  readonly recorder: EventRecorder;
  /** The node's resources for pods. */
  readonly allocatable: () => Readonly<Record<string, string>>;
  /** Whether to resolve environment variables. */
  readonly resolveEnv: boolean;
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  readonly slowCallMs: number;
  /** Time limit of the provider's `list` and `presence`, milliseconds. */
  readonly providerTimeoutMs: number;
  readonly metrics: NodeMetrics;
  readonly tracer: Tracer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The pods bound to one node. Has a worker for each UID, and compares the API with the provider. */
export class PodController {
  readonly #options: PodControllerOptions;
  readonly #workers = new Map<string, PodWorker>();
  readonly #resolver: PodResolver;
  readonly #pods: Informer<Pod>;
  readonly #sweep: PodSweep;

  /** Starts watching at once. */
  constructor(options: PodControllerOptions) {
    this.#options = options;
    const { client, clock, logger, signal, nodeName, provider, providerTimeoutMs } = options;
    this.#resolver = new PodResolver({
      client,
      nodeClient: options.nodeClient,
      allocatable: async (pod) => (await provider.podAllocatable?.(pod)) ?? options.allocatable(),
      resolveEnv: options.resolveEnv,
      readsEnvFiles: options.provider.readsEnvFiles === true,
      holdsBackContainers: options.provider.holdsBackContainers === true,
      onChange: (uids) => {
        for (const uid of uids) this.#workers.get(uid)?.wake();
      },
      recordEvent: (pod, event, fieldPath) => this.#record(pod, event, fieldPath),
      clock,
      logger,
      signal,
    });
    this.#pods = createInformer<Pod>({
      client,
      path: paths.pods(),
      query: { fieldSelector: `spec.nodeName=${nodeName}` },
      onEvent: (event) => this.#handleEvent(event),
      clock,
      logger,
      signal,
    });
    this.#sweep = new PodSweep({
      client,
      nodeName,
      provider,
      providerTimeoutMs,
      pods: this.#pods,
      workers: this.#workers,
      start: (pod) => this.#update(pod),
      clock,
      logger,
      signal,
    });
    // The remaining buffered statuses belong to deleted pods.
    const forget = (): void => options.bufferedStatuses.clear();
    this.#pods.synced.then(forget, forget);
    signal.addEventListener("abort", () => this.#end(), { once: true });
  }

  /** Resolves when the node's pods are known. */
  get synced(): Promise<void> {
    return this.#pods.synced;
  }

  list(): readonly Pod[] {
    return this.#pods.list();
  }

  find(namespace: string, name: string, uid?: string): Pod | undefined {
    const pod = this.#pods.get(namespace, name);
    return uid === undefined || pod?.metadata.uid === uid ? pod : undefined;
  }

  byUid(uid: string): Pod | undefined {
    return this.#pods.byUid(uid);
  }

  /** The number of pods, by the state of their workers. */
  counts(): PodCounts {
    const workers = [...this.#workers.values()];
    const failing = workers.filter(({ isFailing }) => isFailing).length;
    const busy = workers.filter(({ isBusy }) => isBusy).length - failing;
    return { known: workers.length, busy, failing };
  }

  /** Handles a status from the provider, possibly for a pod that is not listed yet. */
  podStatus(update: PodStatusUpdate): void {
    const worker = this.#workers.get(update.uid);
    if (worker) worker.reportStatus(update);
    else if (!this.#pods.isSynced) this.#options.bufferedStatuses.set(update.uid, update);
  }

  /** Writes terminal statuses that the API does not have yet. Resolves when it has all of them. */
  async flushEnds(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.flushEnd()));
  }

  /** Records an event from the provider. */
  podEvent({ uid, type, reason, message, fieldPath }: PodEvent): void {
    const pod = this.#workers.get(uid)?.pod;
    if (pod) this.#record(pod, { type, reason, message }, fieldPath);
  }

  /**
   * Compares the API's pods with the provider's, in both directions, and starts to repair the differences: see
   * {@link PodSweep}.
   *
   * @throws errors of the provider's `list` or of the API server; nothing has then changed
   */
  async sweep(): Promise<void> {
    await this.#sweep.run();
  }

  #handleEvent({ type, object }: InformerEvent<Pod>): void {
    if (type === "deleted") this.#workers.get(object.metadata.uid)?.objectDeleted();
    else this.#update(object);
  }

  #update(pod: Pod): void {
    const { uid } = pod.metadata;
    const { bufferedStatuses } = this.#options;
    const worker = this.#workers.get(uid) ?? this.#create(pod);
    worker.update(pod);
    const buffered = bufferedStatuses.get(uid);
    if (!buffered) return;
    bufferedStatuses.delete(uid);
    worker.reportStatus(buffered);
  }

  #create(pod: Pod): PodWorker {
    const { client, nodeClient = client, provider, clock } = this.#options;
    const { slowCallMs, metrics, tracer } = this.#options;
    const { backoffMs, backoffMaxMs } = this.#options;
    const { namespace, name, uid } = pod.metadata;
    const tokens = createTokenSource(nodeClient, pod, clock);
    const worker = new PodWorker(pod, {
      client,
      nodeClient,
      provider,
      clock,
      logger: this.#options.logger.with({ pod: `${namespace}/${name}`, podUid: uid }),
      resolve: (current, previous) => this.#resolver.resolve(current, tokens, previous),
      recordEvent: (about, event) => this.#record(about, event),
      backoff: { initialMs: backoffMs, maxMs: backoffMaxMs },
      slowCallMs,
      metrics,
      tracer,
      onEnd: () => {
        this.#workers.delete(uid);
        this.#resolver.release(uid);
      },
    });
    this.#workers.set(uid, worker);
    return worker;
  }

  #record(pod: Pod, event: RecordedEvent, fieldPath?: string): void {
    const involved = referenceTo(pod, defined({ apiVersion: "v1", kind: "Pod", fieldPath }));
    this.#options.recorder.record(involved, event);
  }

  #end(): void {
    for (const worker of this.#workers.values()) worker.stop();
    this.#resolver.stop();
  }
}
