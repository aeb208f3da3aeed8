import type { CollectedCache } from "@kip/oci-image";
import { Durations, type MetricFamily } from "@kip/virtual-kubelet/telemetry";
import type { CacheState } from "./cache-state.ts";

/** Upper bounds of duration buckets, seconds. */
const bounds = [0.1, 0.5, 1, 5, 15, 60, 300, 1800];

/** Result of fetching an image: bytes were fetched, none were needed, or it failed. */
export type FillResult = "filled" | "current" | "failed";

const results: readonly FillResult[] = ["filled", "current", "failed"];

/** Metrics of the image cache, for Prometheus. */
export class ImageCacheMetrics {
  readonly #durations = new Durations(bounds);
  readonly #counts: Record<FillResult, number> = { filled: 0, current: 0, failed: 0 };
  #filledBytes = 0;
  #removedBytes = 0;
  #removedBlobs = 0;
  #collected: { readonly found: CollectedCache; readonly atMs: number } | undefined;

  filled(result: FillResult, writtenBytes: number, ms: number): void {
    this.#durations.observe({ result }, ms / 1000);
    this.#counts[result]++;
    this.#filledBytes += writtenBytes;
  }

  collected(found: CollectedCache, nowMs: number): void {
    this.#removedBytes += found.removedBytes;
    this.#removedBlobs += found.removedBlobs;
    this.#collected = { found, atMs: nowMs };
  }

  families({ images }: CacheState): readonly MetricFamily[] {
    const states = { current: 0, waiting: 0, failing: 0 };
    for (const { problem, isFilled } of images.values()) {
      if (problem !== undefined) states.failing++;
      else if (isFilled === true) states.current++;
      else states.waiting++;
    }
    return [
      {
        name: "kip_image_cache_images",
        type: "gauge",
        help: "Images that pods and the list name: current are in the cache, waiting are not all there yet, failing could not be had.",
        samples: Object.entries(states).map(([state, value]) => ({ labels: { state }, value })),
      },
      {
        name: "kip_image_cache_fills_total",
        type: "counter",
        help: "Images that were asked for: filled wrote something, current found all of it in the cache.",
        samples: results.map((result) => ({ labels: { result }, value: this.#counts[result] })),
      },
      {
        name: "kip_image_cache_fill_duration_seconds",
        type: "histogram",
        help: "Time to ask for an image and to fetch what is missing of it.",
        samples: this.#durations.samples(),
      },
      counter(
        "kip_image_cache_filled_bytes_total",
        "Bytes written to the cache.",
        this.#filledBytes,
      ),
      counter(
        "kip_image_cache_removed_blobs_total",
        "Blobs removed from the cache.",
        this.#removedBlobs,
      ),
      counter(
        "kip_image_cache_removed_bytes_total",
        "Bytes removed from the cache.",
        this.#removedBytes,
      ),
      ...this.#found(),
    ];
  }

  /** The results of the last collection. Empty before the first one. */
  #found(): readonly MetricFamily[] {
    if (!this.#collected) return [];
    const { found, atMs } = this.#collected;
    const byState = (name: string, help: string, named: number, unnamed: number): MetricFamily => ({
      name,
      type: "gauge",
      help,
      samples: [
        { labels: { state: "available" }, value: named },
        { labels: { state: "leaving" }, value: unnamed },
      ],
    });
    return [
      byState(
        "kip_image_cache_blobs",
        "Blobs in the cache: available to pulls, or leaving, which have lost their names.",
        found.blobs,
        found.waitingBlobs,
      ),
      byState("kip_image_cache_bytes", "Bytes of these blobs.", found.bytes, found.waitingBytes),
      {
        name: "kip_image_cache_last_collection_timestamp_seconds",
        type: "gauge",
        help: "When the cache was last looked through, seconds since the epoch.",
        samples: [{ value: atMs / 1000 }],
      },
    ];
  }
}

function counter(name: string, help: string, value: number): MetricFamily {
  return { name, type: "counter", help, samples: [{ value }] };
}
