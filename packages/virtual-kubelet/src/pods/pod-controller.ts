import { errorText, type Clock, type Logger } from "@kip/base";
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
import { inTime } from "../providers/in-time.ts";
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
  /** What the provider has said so far, by UID: the controller goes on with it, and empties it. */
  readonly early: Map<string, PodStatusUpdate>;
  readonly recorder: EventRecorder;
  /** What the node offers to pods. */
  readonly allocatable: () => Readonly<Record<string, string>>;
  /** Whether environment variables are looked up. */
  readonly resolveEnv: boolean;
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  readonly slowCallMs: number;
  /** How long the provider has to say what pods it has, milliseconds. */
  readonly answerMs: number;
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

/** How long a pod's start waits for the first list of services before it says so, milliseconds. */
const servicesPatienceMs = 5000;

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
      onEvent: (event) => this.#seen(event),
      clock,
      logger,
      signal,
    });
    // Whatever was said of others concerns pods that are gone.
    const forget = (): void => options.early.clear();
    this.#pods.synced.then(forget, forget);
    signal.addEventListener("abort", () => this.#stop(), { once: true });
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

  /** The provider reports a status, perhaps of a pod that is still to be listed. */
  podStatus(update: PodStatusUpdate): void {
    const entry = this.#entries.get(update.uid);
    if (entry) entry.actor.offerStatus(update);
    else if (!this.#pods.isSynced) this.#options.early.set(update.uid, update);
  }

  /** Writes the ends of pods that are not in the API yet; resolves when it has them all. */
  async flushEnds(): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ actor }) => actor.flushEnd()));
  }

  /** The provider has an event for a pod. */
  podEvent({ uid, type, reason, message, fieldPath }: PodEvent): void {
    const pod = this.#entries.get(uid)?.actor.pod;
    if (pod) this.#record(pod, { type, reason, message }, fieldPath);
  }

  /**
   * Compares the API's pods with the provider's, both ways, and has differences repaired. Nothing is
   * removed unless the API server itself says, when asked anew, that there is no such pod.
   *
   * @throws whatever the provider's `list` or the API server fails with; nothing was done then
   */
  async sweep(): Promise<void> {
    if (!this.#pods.isSynced) return;
    this.#refresh();
    const listed = await this.#inTime(this.#options.provider.list());
    const present = new Set(listed.map(({ uid }) => uid));
    const strangers = [...present].filter(
      (uid) => !this.#entries.has(uid) && !this.#pods.byUid(uid),
    );
    if (strangers.length > 0) await this.#removeStrangers(strangers);
    for (const pod of this.#pods.list()) {
      if (!this.#entries.has(pod.metadata.uid)) this.#offer(pod);
    }
    const checks: Promise<void>[] = [];
    for (const [uid, { actor }] of this.#entries) {
      if (!present.has(uid) && actor.shouldBePresent) checks.push(this.#checkPresence(actor));
      actor.repairStatus();
    }
    await Promise.all(checks);
  }

  /** Has content that is due made again, such as tokens that end soon. */
  #refresh(): void {
    const now = this.#options.clock.now();
    for (const { actor } of this.#entries.values()) if (actor.isRefreshDue(now)) actor.wake();
  }

  /** Of what the provider fails with here, other pods must see nothing. */
  async #checkPresence(actor: PodActor): Promise<void> {
    const { provider, logger } = this.#options;
    const podUid = actor.uid;
    try {
      if ((await this.#inTime(provider.presence(podUid))) !== "absent") return;
    } catch (error) {
      logger.warn("Could not learn whether a pod is there", { podUid, cause: errorText(error) });
      return;
    }
    if (!actor.shouldBePresent) return;
    logger.warn("The provider lost a pod; it is told again", { podUid });
    actor.wake();
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    const { clock, answerMs: limitMs, signal } = this.#options;
    return inTime(answer, { clock, limitMs, signal });
  }

  async #removeStrangers(uids: readonly string[]): Promise<void> {
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
    } catch (error) {
      logger.warn("Could not remove an unknown pod", { podUid, cause: errorText(error) });
    } finally {
      this.#removals.delete(podUid);
    }
  }

  #seen(event: InformerEvent<Pod>): void {
    if (event.type === "deleted") this.#entries.get(event.object.metadata.uid)?.actor.gone();
    else this.#offer(event.object);
  }

  #offer(pod: Pod): void {
    const uid = pod.metadata.uid;
    const entry = this.#entries.get(uid) ?? this.#start(pod, uid);
    entry.actor.offer(pod);
    const early = this.#options.early.get(uid);
    if (!early) return;
    this.#options.early.delete(uid);
    entry.actor.offerStatus(early);
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
    await this.#servicesKnown();
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

  /** The first pods of a process must not start without service variables. */
  async #servicesKnown(): Promise<void> {
    if (this.#services.isSynced) return;
    const patience = this.#options.clock.sleep(servicesPatienceMs, this.#options.signal);
    await Promise.race([this.#services.synced, patience]);
    if (this.#services.isSynced) return;
    const cause = this.#services.error ? `: ${errorText(this.#services.error)}` : "";
    throw unresolved(`services have not been synced yet${cause}`);
  }

  #record(pod: Pod, event: RecordedEvent, fieldPath?: string): void {
    const reference = referenceTo(pod, {
      apiVersion: "v1",
      kind: "Pod",
      ...(fieldPath !== undefined && { fieldPath }),
    });
    this.#options.recorder.record(reference, event);
  }

  #stop(): void {
    for (const { actor } of this.#entries.values()) actor.stop();
    this.#references.stop();
  }
}

/** What environment variables need of a service: a cluster may have thousands. */
function prunedService({ metadata, spec }: Service): Service {
  const { namespace = "", name = "", uid = "", resourceVersion = "" } = metadata ?? {};
  return {
    metadata: { namespace, name, uid, resourceVersion },
    spec: {
      ...(spec?.clusterIP !== undefined && { clusterIP: spec.clusterIP }),
      ports: (spec?.ports ?? []).map(({ name: portName, port, protocol }) => ({
        port,
        ...(portName !== undefined && { name: portName }),
        ...(protocol !== undefined && { protocol }),
      })),
    },
  };
}
