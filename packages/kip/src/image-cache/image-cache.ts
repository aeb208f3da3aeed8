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
  areAllDigestsKnown,
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

/** Settings that may change while the cache is running. */
export interface ImageCacheSettings extends FillSettings {
  /** Names of images to keep whether or not a pod uses them. */
  readonly listed: readonly string[];
}

/** Options of {@link startImageCache}. */
export interface ImageCacheOptions {
  /** Lists and watches pods. Reads pull secrets if they are used. */
  readonly client: ApiClient;
  /** The shared folder. */
  readonly cache: string;
  readonly settings: ImageCacheSettings;
  /** Only pods of these nodes count. Empty: those of all nodes. */
  readonly nodes: ReadonlySet<string>;
  /** Platforms of the cells. */
  readonly platforms: readonly Platform[];
  /** Whether to cache images that need a login. Root on each cell can read them. */
  readonly allowsPrivate: boolean;
  /** Whether to log in with the pods' pull secrets. */
  readonly usesPullSecrets: boolean;
  /** Number of images to fetch concurrently. */
  readonly parallel: number;
  /** Maximum time for one attempt at an image, milliseconds. Blobs that are complete by then are kept. */
  readonly fillTimeoutMs: number;
  /** A registry that sends less than this for a minute is given up. */
  readonly leastBytesPerSecond: number;
  /** Time between two lookups of a tag, milliseconds. */
  readonly refreshMs: number;
  /** Time between two collections of unused images, milliseconds. */
  readonly collectMs: number;
  /** Images that were unused for this long are removed, milliseconds. Infinite: nothing is removed. */
  readonly unusedForMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** A running image cache, until the signal aborts. */
export interface RunningImageCache {
  /** What it is waiting for. Undefined while it works. */
  readonly waitsFor: string | undefined;
  /** Resolves when it has stopped. */
  readonly stopped: Promise<void>;
  change(settings: ImageCacheSettings): void;
  families(): readonly MetricFamily[];
}

/** Pods often change many at a time. They are processed together this long after the first change, milliseconds. */
const settleMs = 100;
/** First pause after an image could not be fetched, milliseconds. */
const firstRetryMs = 10_000;
/** Failure codes that an early retry would not change, or that delayed other images for long. */
const notRepeatedSoon: ReadonlySet<string> = new Set(["IMAGE_FILL_TIMEOUT", "IMAGE_PRIVATE"]);
/** Delay before repeating a collection that was too early, milliseconds. */
const earlyMs = 60_000;

/**
 * Fills a folder from which cells pull with the images of running pods and of a list. Looks up their tags again at intervals,
 * and removes images that were unused for long. Several caches may share a folder.
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
  #isComparisonDue = false;
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
      onEvent: () => this.#scheduleComparison(),
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
    this.#compareNow();
    this.#reconciler.apply({ kind: "settingsChanged" });
    this.#reconciler.retryNow();
  }

  families(): readonly MetricFamily[] {
    return this.#metrics.families(this.#reconciler.state);
  }

  async #run(): Promise<void> {
    const { clock, logger, signal, collectMs } = this.#options;
    await this.#pods.synced.catch(() => {}); // it only ends with the signal
    this.#compareNow();
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

  #scheduleComparison(): void {
    if (this.#isComparisonDue || !this.#pods.isSynced) return;
    this.#isComparisonDue = true;
    const { clock, signal } = this.#options;
    clock.sleep(settleMs, signal).then(
      () => this.#compareNow(),
      () => {}, // stopped
    );
  }

  /** Compares the wanted images with the known ones. */
  #compareNow(): void {
    this.#isComparisonDue = false;
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

  /** Fills an image within the time limit. Ends when it no longer writes. */
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

  /** Removes images that neither a pod nor the list names, and that were unused for long. */
  async #collect(): Promise<void> {
    const { cache, unusedForMs, clock, logger, signal } = this.#options;
    this.#wasEarly = this.waitsFor !== undefined || !this.#areAllDigestsKnown();
    if (this.#wasEarly) return;
    this.#compareNow();
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
   * Whether each name's digest is known, so that no image in use counts as unused. After a start, an image with a temporary
   * failure is waited for as long as an image may be unused.
   */
  #areAllDigestsKnown(): boolean {
    const { clock, unusedForMs } = this.#options;
    if (clock.monotonic() - this.#startedAtMs >= unusedForMs) return true;
    return areAllDigestsKnown(this.#reconciler.state);
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
