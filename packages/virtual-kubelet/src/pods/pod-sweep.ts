import { withTimeout, type Clock, type Logger } from "@kip/base";
import { paths, type ApiClient, type Informer } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import type { PodProvider } from "../pod-provider.ts";
import type { PodWorker } from "./pod-worker.ts";

/** Options of {@link PodSweep}. */
export interface PodSweepOptions {
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly provider: PodProvider;
  /** Time limit of the provider's `list` and `presence`, milliseconds. */
  readonly providerTimeoutMs: number;
  /** The pods of the node in the API. */
  readonly pods: Informer<Pod>;
  /** By UID. */
  readonly workers: ReadonlyMap<string, PodWorker>;
  /** Starts the worker of a pod that has none. */
  readonly start: (pod: Pod) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Compares the API's pods with the provider's, and starts to repair the differences. */
export class PodSweep {
  readonly #options: PodSweepOptions;
  /** UIDs of unknown pods that are being removed. */
  readonly #removals = new Set<string>();

  constructor(options: PodSweepOptions) {
    this.#options = options;
  }

  /**
   * Compares once in both directions. Only removes a pod if a fresh list of the API server does not contain it either.
   *
   * @throws errors of the provider's `list` or of the API server; nothing has then changed
   */
  async run(): Promise<void> {
    const { provider, pods, workers, start } = this.#options;
    if (!pods.isSynced) return;
    this.#refresh();
    const listed = await this.#ask(() => provider.list());
    const present = new Set(listed.map(({ uid }) => uid));
    const unknown = [...present].filter((uid) => !workers.has(uid) && !pods.byUid(uid));
    if (unknown.length > 0) await this.#removeUnknownPods(unknown);
    for (const pod of pods.list()) if (!workers.has(pod.metadata.uid)) start(pod);
    const checks: Promise<void>[] = [];
    for (const [uid, worker] of workers) {
      if (!present.has(uid) && worker.shouldBePresent) checks.push(this.#checkPresence(worker));
      worker.repairStatus();
    }
    await Promise.all(checks);
  }

  /** Resolves content that is due again, such as tokens that expire soon. */
  #refresh(): void {
    const { clock, workers } = this.#options;
    const now = clock.now();
    for (const worker of workers.values()) if (worker.isRefreshDue(now)) worker.wake();
  }

  /** Never rejects, because a provider's error for one pod must not affect the others. */
  async #checkPresence(worker: PodWorker): Promise<void> {
    const { provider, logger } = this.#options;
    const podUid = worker.uid;
    try {
      if ((await this.#ask(() => provider.presence(podUid))) !== "absent") return;
    } catch (err) {
      logger.warn("Could not ask the provider for a pod", { podUid, err });
      return;
    }
    if (!worker.shouldBePresent) return;
    logger.warn("The provider lost a pod; applying it again", { podUid });
    worker.wake();
  }

  #ask<T>(call: () => Promise<T>): Promise<T> {
    const { clock, providerTimeoutMs: limitMs, signal } = this.#options;
    const error = (): Error => new Error(`The provider did not answer within ${limitMs / 1000} s`);
    return withTimeout(call, { clock, limitMs, signal, error });
  }

  async #removeUnknownPods(uids: readonly string[]): Promise<void> {
    const known = await this.#listUids();
    // A removal may take as long as the backend needs. Neither the other pods nor the next sweep wait for it.
    for (const uid of uids) {
      if (!known.has(uid) && !this.#options.workers.has(uid)) void this.#removeUnknown(uid);
    }
  }

  /** UIDs of the node's pods, from a new list. */
  async #listUids(): Promise<ReadonlySet<string>> {
    const { client, nodeName } = this.#options;
    const known = new Set<string>();
    let next: string | undefined;
    do {
      const query = { fieldSelector: `spec.nodeName=${nodeName}`, limit: 500, continue: next };
      const page = await client.list<Pick<Pod, "metadata">>(paths.pods(), {
        query,
        accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
      });
      for (const { metadata } of page.items) known.add(metadata.uid);
      next = page.metadata.continue === "" ? undefined : page.metadata.continue;
    } while (next !== undefined);
    return known;
  }

  /** Never rejects. The next sweep tries failed removals again. */
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
}
