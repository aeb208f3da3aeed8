import { every, isCodedError, withTimeout, type Clock, type Logger } from "@kip/base";
import { createInformer, paths, type ApiClient, type Informer } from "@kip/k8s-client";
import type { Pod } from "@kip/k8s-types";
import {
  collectCache,
  markCachedImage,
  type Platform,
  type Prefetched,
  type Reference,
} from "@kip/oci-image";
import { Reconciler, type StepFailure, type StepOf } from "@kip/reconcile";
import type { MetricFamily } from "@kip/virtual-kubelet/telemetry";
import { ProviderError } from "../errors.ts";
import {
  knowsAll,
  noImages,
  planCache,
  reduceCache,
  type CacheChange,
  type CacheState,
  type CacheStepArgs,
} from "./cache-state.ts";
import { fillImage, type FillSettings } from "./fill-image.ts";
import { ImageCacheMetrics } from "./image-cache-metrics.ts";
import { slimPod, usesImages, wantedImages, type WantedImage } from "./wanted-images.ts";

/** What may change while the cache is looked after. */
export interface ImageCacheSettings extends FillSettings {
  /** Names of images that are wanted whether or not a pod has them. */
  readonly listed: readonly string[];
}

/** Options of {@link startImageCache}. */
export interface ImageCacheOptions {
  /** Lists and watches pods; reads pull secrets if they are used. */
  readonly client: ApiClient;
  /** The shared folder. */
  readonly cache: string;
  readonly settings: ImageCacheSettings;
  /** Pods of these nodes count alone. Empty: those of all nodes. */
  readonly nodes: ReadonlySet<string>;
  /** What cells run on. */
  readonly platforms: readonly Platform[];
  /** Whether images that take a log-in are taken: root on each cell can read them. */
  readonly allowsPrivate: boolean;
  /** Whether pods' pull secrets are read, to log in. */
  readonly usesPullSecrets: boolean;
  /** Images that are fetched at once. */
  readonly parallel: number;
  /** Longest that one image may take at once, milliseconds. Blobs that are whole by then stay. */
  readonly fillTimeoutMs: number;
  /** A registry that sends less for a minute is given up. */
  readonly leastBytesPerSecond: number;
  /** Time between two questions what a tag means, milliseconds. */
  readonly refreshMs: number;
  /** Time between two looks for what is unused, milliseconds. */
  readonly collectMs: number;
  /** What was not used for so long is removed, milliseconds; infinite: nothing is. */
  readonly unusedForMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Looks after a cache until the signal aborts. */
export interface RunningImageCache {
  /** What it waits for; undefined while it works. */
  readonly waitsFor: string | undefined;
  /** Resolves when it has stopped. */
  readonly stopped: Promise<void>;
  change(settings: ImageCacheSettings): void;
  families(): readonly MetricFamily[];
}

/** Pods come and go many at a time: they are looked at together, milliseconds after the first. */
const settleMs = 100;
/** First pause after an image could not be had, milliseconds. */
const firstRetryMs = 10_000;
/** Codes of failures that asking again soon would not change, or that have held up other images for long. */
const notRepeatedSoon: ReadonlySet<string> = new Set(["IMAGE_FILL_TIMEOUT", "IMAGE_PRIVATE"]);
/** A look for what is unused that was too early is repeated after this, milliseconds. */
const earlyMs = 60_000;

/**
 * Fills a folder that cells pull from with the images of running pods and of a list, asks at intervals what their tags mean now, and
 * removes what was not used for long. Several may look after one folder.
 */
export function startImageCache(options: ImageCacheOptions): RunningImageCache {
  const keeper = new CacheKeeper(options);
  return keeper;
}

class CacheKeeper implements RunningImageCache {
  readonly stopped: Promise<void>;
  readonly #options: ImageCacheOptions;
  readonly #metrics = new ImageCacheMetrics();
  readonly #pods: Informer<Pod>;
  readonly #reconciler: Reconciler<CacheStepArgs, CacheState, CacheChange>;
  readonly #startedAtMs: number;
  #settings: ImageCacheSettings;
  #running: readonly Reference[] = [];
  #invalid = "";
  #isLookDue = false;
  #wasEarly = false;

  constructor(options: ImageCacheOptions) {
    const { client, parallel, refreshMs, clock, logger, signal } = options;
    this.#options = options;
    this.#settings = options.settings;
    this.#startedAtMs = clock.monotonic();
    this.#reconciler = new Reconciler<CacheStepArgs, CacheState, CacheChange>({
      initial: noImages,
      plan: planCache(parallel),
      reduce: reduceCache,
      executors: { fill: async ({ name }, { signal }) => await this.#fill(name, signal) },
      lane: ({ name }) => name,
      input: ({ name }) => this.#reconciler.state.images.get(name)?.pullSecrets,
      backoff: { initialMs: firstRetryMs, maxMs: Math.max(firstRetryMs, refreshMs) },
      onFailure: (failure) => this.#failed(failure),
      clock,
      logger,
    });
    this.#pods = createInformer<Pod>({
      client,
      path: paths.pods(),
      transform: slimPod,
      onEvent: () => this.#look(),
      onError: (err) => logger.warn("Could not watch the pods", { err }),
      clock,
      logger,
      signal,
    });
    this.stopped = this.#run();
  }

  get waitsFor(): string | undefined {
    if (!this.#pods.isSynced) return "waiting for the list of pods";
    return this.#pods.error && "waiting for the API server";
  }

  change(settings: ImageCacheSettings): void {
    this.#settings = settings;
    this.#lookNow();
    this.#reconciler.apply({ kind: "settingsChanged" });
    this.#reconciler.retryNow();
  }

  families(): readonly MetricFamily[] {
    return this.#metrics.families(this.#reconciler.state);
  }

  async #run(): Promise<void> {
    const { clock, logger, signal, collectMs } = this.#options;
    await this.#pods.synced.catch(() => {}); // it only ends with the signal
    this.#lookNow();
    await every(
      {
        intervalMs: () => (this.#wasEarly ? Math.min(earlyMs, collectMs) : collectMs),
        clock,
        logger,
        what: "collect what is unused",
        signal,
      },
      async () => await this.#collect(),
    );
    await this.#reconciler.stop();
  }

  #look(): void {
    if (this.#isLookDue || !this.#pods.isSynced) return;
    this.#isLookDue = true;
    const { clock, signal } = this.#options;
    clock.sleep(settleMs, signal).then(
      () => this.#lookNow(),
      () => {}, // stopped
    );
  }

  /** Compares what is wanted with what is known. */
  #lookNow(): void {
    this.#isLookDue = false;
    if (!this.#pods.isSynced) return;
    const { nodes, logger } = this.#options;
    const pods = this.#pods.list().filter((pod) => usesImages(pod, nodes));
    const { images, running, invalid } = wantedImages(pods, this.#settings.listed);
    this.#running = running;
    const names = invalid.join(", ");
    if (names !== this.#invalid && names !== "")
      logger.warn("Some lines of the list are not names of images", { names });
    this.#invalid = names;
    this.#reconciler.apply({ kind: "wanted", images });
  }

  async #fill(name: string, signal: AbortSignal): Promise<CacheChange | undefined> {
    const { clock, logger, refreshMs } = this.#options;
    const image = this.#reconciler.state.images.get(name);
    if (!image) return undefined;
    this.#reconciler.apply({ kind: "started", name });
    const startedAtMs = clock.monotonic();
    const count = (result: "filled" | "current" | "failed", writtenBytes: number): void =>
      this.#metrics.filled(result, writtenBytes, clock.monotonic() - startedAtMs);
    try {
      const { digest, writtenBytes } = await this.#fillWithin(name, image, signal);
      count(writtenBytes > 0 ? "filled" : "current", writtenBytes);
      if (writtenBytes > 0)
        logger.info("Put an image into the cache", { image: name, digest, writtenBytes });
      return { kind: "filled", name, digest, nextMs: refreshMs };
    } catch (error) {
      if (!signal.aborted) count("failed", 0);
      throw error;
    }
  }

  /** Fills within the time limit, and ends once it no longer writes. */
  async #fillWithin(name: string, image: WantedImage, signal: AbortSignal): Promise<Prefetched> {
    const { client, usesPullSecrets, clock, fillTimeoutMs: limitMs } = this.#options;
    let filling: Promise<unknown> | undefined;
    const fill = async (signal: AbortSignal): Promise<Prefetched> =>
      await fillImage(image, {
        ...this.#options,
        settings: this.#settings,
        client: usesPullSecrets ? client : undefined,
        onDigest: (digest) => this.#reconciler.apply({ kind: "resolved", name, digest }),
        signal,
      });
    try {
      return await withTimeout(
        async (signal) => {
          const filled = fill(signal);
          filling = filled.catch(() => {});
          return await filled;
        },
        { limitMs, clock, signal, error: () => fillTimeout(name, limitMs) },
      );
    } finally {
      await filling;
    }
  }

  #failed({ step, error, delayMs }: StepFailure<StepOf<CacheStepArgs>>): CacheChange {
    const { name } = step;
    const problem = isCodedError(error) ? error.code : "INTERNAL";
    const before = this.#reconciler.state.images.get(name)?.problem;
    if (problem !== before)
      this.#options.logger.warn("Could not put an image into the cache", {
        image: name,
        err: error,
      });
    const nextMs = notRepeatedSoon.has(problem) ? this.#options.refreshMs : delayMs;
    return { kind: "failed", name, problem, nextMs };
  }

  /** Removes what neither a pod nor the list names, and was not used for long. */
  async #collect(): Promise<void> {
    const { cache, unusedForMs, clock, logger, signal } = this.#options;
    this.#wasEarly = this.waitsFor !== undefined || !this.#knowsAll();
    if (this.#wasEarly) return;
    this.#lookNow();
    const inUse = new Set<string>();
    for (const reference of [...this.#wantedDigests(), ...this.#running]) {
      signal.throwIfAborted();
      for (const digest of await this.#mark(reference)) inUse.add(digest);
    }
    const found = await collectCache(cache, { inUse, unusedForMs, clock, signal });
    this.#metrics.collected(found, clock.now());
    const { retiredBlobs, removedBlobs, removedBytes } = found;
    if (retiredBlobs + removedBlobs > 0)
      logger.info("Removed what is unused", { retiredBlobs, removedBlobs, removedBytes });
  }

  /**
   * Whether it is known what each name means, so that none is taken for unused. After a start, an image that cannot be asked
   * for in passing is waited for as long as an image may be unused.
   */
  #knowsAll(): boolean {
    const { clock, unusedForMs } = this.#options;
    if (clock.monotonic() - this.#startedAtMs >= unusedForMs) return true;
    return knowsAll(this.#reconciler.state);
  }

  #wantedDigests(): readonly Reference[] {
    return [...this.#reconciler.state.images.values()].flatMap(({ reference, digest }) =>
      digest === undefined ? [] : [{ ...reference, digest }],
    );
  }

  async #mark(reference: Reference): Promise<readonly string[]> {
    const { cache, platforms, clock } = this.#options;
    const found: string[] = [];
    for (const platform of platforms)
      found.push(...(await markCachedImage(reference, cache, { platform, clock })).digests);
    return found;
  }
}

function fillTimeout(name: string, limitMs: number): Error {
  return new ProviderError(
    "IMAGE_FILL_TIMEOUT",
    `Cannot put image "${name}" into the cache: it took longer than ${limitMs / 1000} s`,
    {
      facts: { seconds: limitMs / 1000 },
      remedy: "Look at the network to its registry, or raise --fill-timeout of kip image-cache",
    },
  );
}
