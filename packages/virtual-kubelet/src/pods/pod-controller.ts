import { defined, errorText, withTimeout, type Clock, type Logger } from "@kip/base";
import {
  createInformer,
  paths,
  referenceTo,
  type ApiClient,
  type EventRecorder,
  type Informer,
  type InformerEvent,
  type KubeObject,
  type RecordedEvent,
} from "@kip/k8s-client";
import type { Pod, Service } from "@kip/k8s-types";
import type { NodeMetrics, PodCounts } from "../metrics/node-metrics.ts";
import type { PodEvent, PodProvider, PodStatusUpdate, ResolvedPod } from "../pod-provider.ts";
import { unresolved } from "../references/reference.ts";
import { ReferenceStore } from "../references/reference-store.ts";
import type { Tracer } from "../tracing.ts";
import { createTokenSource, type TokenSource } from "../volumes/token-source.ts";
import { PodActor } from "./pod-actor.ts";
import { resolvePod } from "./resolve-pod.ts";

/** Options of {@link PodController}. */
export interface PodControllerOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** Statuses that the provider reported before the pods were listed, by UID; the controller takes them out. */
  readonly bufferedStatuses: Map<string, PodStatusUpdate>;
  readonly recorder: EventRecorder;
  /** What the node offers to pods. */
  readonly allocatable: () => Readonly<Record<string, string>>;
  /** Whether environment variables are looked up. */
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

interface PodEntry {
  readonly actor: PodActor;
  readonly tokens: TokenSource;
}

/** How long an attempt to start a pod waits for the first list of services, milliseconds. */
const servicesTimeoutMs = 5000;

/** The pods bound to one node: an actor for each UID, and the comparison of API and provider. */
export class PodController {
  readonly #options: PodControllerOptions;
  readonly #entries = new Map<string, PodEntry>();
  readonly #references: ReferenceStore;
  readonly #services: Informer<Service>;
  readonly #pods: Informer<Pod>;
  /** UIDs of unknown pods whose removal is under way. */
  readonly #removals = new Set<string>();

  /** Starts watching at once. */
  constructor(options: PodControllerOptions) {
    this.#options = options;
    const { client, clock, logger, signal, nodeName } = options;
    this.#references = new ReferenceStore({
      client,
      clock,
      logger,
      onChange: (uids) => {
        for (const uid of uids) this.#entries.get(uid)?.actor.wake();
      },
    });
    this.#services = createInformer<Service & KubeObject>({
      client,
      path: paths.services(),
      transform: prunedService,
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
    // The remaining buffered statuses are of deleted pods.
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
    return uid === undefined || pod?.metadata?.uid === uid ? pod : undefined;
  }

  byUid(uid: string): Pod | undefined {
    return this.#pods.byUid(uid);
  }

  /** How many pods there are, and what their actors do. */
  counts(): PodCounts {
    const actors = [...this.#entries.values()].map(({ actor }) => actor);
    const failing = actors.filter(({ isFailing }) => isFailing).length;
    const busy = actors.filter(({ isBusy }) => isBusy).length - failing;
    return { known: actors.length, busy, failing };
  }

  /** Takes a status that the provider reports, perhaps of a pod that is not listed yet. */
  podStatus(update: PodStatusUpdate): void {
    const entry = this.#entries.get(update.uid);
    if (entry) entry.actor.reportStatus(update);
    else if (!this.#pods.isSynced) this.#options.bufferedStatuses.set(update.uid, update);
  }

  /** Writes the terminal statuses that the API does not have yet; resolves when it has them all. */
  async flushEnds(): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ actor }) => actor.flushEnd()));
  }

  /** Records an event that the provider reports. */
  podEvent({ uid, type, reason, message, fieldPath }: PodEvent): void {
    const pod = this.#entries.get(uid)?.actor.pod;
    if (pod) this.#record(pod, { type, reason, message }, fieldPath);
  }

  /**
   * Compares the API's pods with the provider's, both ways, and starts to repair the differences. A pod is removed
   * only if a fresh list of the API server does not have it either.
   *
   * @throws the error of the provider's `list` or of the API server; nothing was changed then
   */
  async sweep(): Promise<void> {
    if (!this.#pods.isSynced) return;
    this.#refresh();
    const listed = await this.#ask(() => this.#options.provider.list());
    const present = new Set(listed.map(({ uid }) => uid));
    const unknown = [...present].filter((uid) => !this.#entries.has(uid) && !this.#pods.byUid(uid));
    if (unknown.length > 0) await this.#removeUnknownPods(unknown);
    for (const pod of this.#pods.list()) {
      if (!this.#entries.has(pod.metadata.uid)) this.#update(pod);
    }
    const checks: Promise<void>[] = [];
    for (const [uid, { actor }] of this.#entries) {
      if (!present.has(uid) && actor.shouldBePresent) checks.push(this.#checkPresence(actor));
      actor.repairStatus();
    }
    await Promise.all(checks);
  }

  /** Resolves content again that is due, such as tokens that expire soon. */
  #refresh(): void {
    const now = this.#options.clock.now();
    for (const { actor } of this.#entries.values()) if (actor.isRefreshDue(now)) actor.wake();
  }

  /** Never rejects: an error of the provider for one pod must not affect the others. */
  async #checkPresence(actor: PodActor): Promise<void> {
    const { provider, logger } = this.#options;
    const podUid = actor.uid;
    try {
      if ((await this.#ask(() => provider.presence(podUid))) !== "absent") return;
    } catch (err) {
      logger.warn("Could not ask the provider for a pod", { podUid, err });
      return;
    }
    if (!actor.shouldBePresent) return;
    logger.warn("The provider lost a pod; applying it again", { podUid });
    actor.wake();
  }

  #ask<T>(call: () => Promise<T>): Promise<T> {
    const { clock, providerTimeoutMs: limitMs, signal } = this.#options;
    const error = (): Error => new Error(`The provider did not answer within ${limitMs / 1000} s`);
    return withTimeout(call, { clock, limitMs, signal, error });
  }

  async #removeUnknownPods(uids: readonly string[]): Promise<void> {
    const { client, nodeName } = this.#options;
    const known = new Set<string>();
    let next: string | undefined;
    do {
      const query = { fieldSelector: `spec.nodeName=${nodeName}`, limit: 500, continue: next };
      const page = await client.list<KubeObject>(paths.pods(), {
        query,
        accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
      });
      for (const { metadata } of page.items) known.add(metadata?.uid ?? "");
      next = page.metadata.continue === "" ? undefined : page.metadata.continue;
    } while (next !== undefined);
    // A removal may take as long as the backend needs: neither the other pods nor the next sweep wait for it.
    for (const uid of uids) {
      if (!known.has(uid) && !this.#entries.has(uid)) void this.#removeUnknown(uid);
    }
  }

  /** Never rejects: the next sweep finds again what could not be removed. */
  async #removeUnknown(podUid: string): Promise<void> {
    if (this.#removals.has(podUid)) return;
    this.#removals.add(podUid);
    const { provider, logger } = this.#options;
    try {
      await provider.removeUnknown(podUid);
      logger.info("Removed a pod that the API server does not know", { podUid });
    } catch (err) {
      logger.warn("Could not remove a pod that the API server does not know", { podUid, err });
    } finally {
      this.#removals.delete(podUid);
    }
  }

  #handleEvent(event: InformerEvent<Pod>): void {
    if (event.type === "deleted")
      this.#entries.get(event.object.metadata.uid)?.actor.objectDeleted();
    else this.#update(event.object);
  }

  #update(pod: Pod): void {
    const uid = pod.metadata.uid;
    const entry = this.#entries.get(uid) ?? this.#start(pod, uid);
    entry.actor.update(pod);
    const buffered = this.#options.bufferedStatuses.get(uid);
    if (!buffered) return;
    this.#options.bufferedStatuses.delete(uid);
    entry.actor.reportStatus(buffered);
  }

  #start(pod: Pod, uid: string): PodEntry {
    const { client, provider, clock, backoffMs, backoffMaxMs } = this.#options;
    const { namespace, name } = pod.metadata;
    const tokens = createTokenSource(client, pod, clock);
    const actor = new PodActor(pod, {
      client,
      provider,
      clock,
      logger: this.#options.logger.with({ pod: `${namespace}/${name}`, podUid: uid }),
      resolve: (current, previous) => this.#resolve(current, tokens, previous),
      recordEvent: (about, event) => this.#record(about, event),
      backoff: { initialMs: backoffMs, maxMs: backoffMaxMs },
      slowCallMs: this.#options.slowCallMs,
      metrics: this.#options.metrics,
      tracer: this.#options.tracer,
      onEnd: () => {
        this.#entries.delete(uid);
        this.#references.release(uid);
      },
    });
    const entry = { actor, tokens };
    this.#entries.set(uid, entry);
    return entry;
  }

  async #resolve(
    pod: Pod,
    tokens: TokenSource,
    previous: ResolvedPod | undefined,
  ): Promise<ResolvedPod> {
    await this.#untilServicesAreKnown();
    const { namespace, uid } = pod.metadata;
    const references = this.#references.readerFor(namespace, uid);
    const resolved = await resolvePod(pod, {
      references,
      tokens,
      services: this.#services.list(),
      allocatable: this.#options.allocatable(),
      resolveEnv: this.#options.resolveEnv,
      previous,
      notify: ({ fieldPath, ...event }) => this.#record(pod, event, fieldPath),
    });
    this.#references.release(uid, references.used);
    return resolved;
  }

  /** The first pods of a process must not start without their service variables. */
  async #untilServicesAreKnown(): Promise<void> {
    if (this.#services.isSynced) return;
    const { clock, signal } = this.#options;
    const error = (): Error => {
      const cause = this.#services.error ? `: ${errorText(this.#services.error)}` : "";
      return unresolved(`services have not been synced yet${cause}`);
    };
    await withTimeout(() => this.#services.synced, {
      limitMs: servicesTimeoutMs,
      clock,
      signal,
      error,
    });
  }

  #record(pod: Pod, event: RecordedEvent, fieldPath?: string): void {
    const reference = referenceTo(pod, {
      apiVersion: "v1",
      kind: "Pod",
      ...(fieldPath !== undefined && { fieldPath }),
    });
    this.#options.recorder.record(reference, event);
  }

  #end(): void {
    for (const { actor } of this.#entries.values()) actor.stop();
    this.#references.stop();
  }
}

/** The parts of a service that environment variables need: a cluster may have thousands of services. */
function prunedService({ metadata, spec }: Service): Service {
  const { namespace = "", name = "", uid = "", resourceVersion = "" } = metadata ?? {};
  return {
    metadata: { namespace, name, uid, resourceVersion },
    spec: defined({
      clusterIP: spec?.clusterIP,
      ports: (spec?.ports ?? []).map(({ name: portName, port, protocol }) =>
        defined({ port, name: portName, protocol }),
      ),
    }),
  };
}
