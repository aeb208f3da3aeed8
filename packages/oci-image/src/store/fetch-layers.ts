import path from "node:path";
import { verified } from "../digest.ts";
import { within, writeFailure } from "../errors.ts";
import { openHashing } from "../hash-thread.ts";
import type { ImageSource } from "../image-source.ts";
import { applyLayer } from "../unpack/apply-layer.ts";
import type { UnpackLimits } from "../unpack/limits.ts";
import { TreeWriter } from "../unpack/tree-writer.ts";
import type { LayerPlan } from "./fetch-image.ts";
import { LayerSpool } from "./layer-spool.ts";
import type { PullProgress } from "./image-store.ts";

/** Layers that arrive at the same time, unless something else is asked for. */
const defaultDownloads = 4;
/**
 * What an image gets more of if its blobs are below 32 MiB: layers wait in memory instead of files, and pieces are larger.
 * With larger images this would gain nothing and cost 15 MiB.
 */
const smallImage = {
  blobBytes: 32 * 1024 * 1024,
  spoolMemoryBytes: 4 * 1024 * 1024,
  pieceBytes: 256 * 1024,
};
/** Made once: an abort without a reason makes one with a stack trace. */
const finished = new Error("All layers are unpacked");

/** What {@link fetchLayers} takes beside the layers. */
export interface FetchLayersOptions {
  /** An empty folder for the tree. */
  readonly tree: string;
  /** A folder for layers that wait for their turn; what is left in it is of no use. */
  readonly spoolFolder: string;
  readonly limits: UnpackLimits;
  readonly makesDevices: boolean;
  /** Layers that arrive at the same time, 1 or more. @default 4 */
  readonly parallelDownloads?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: PullProgress) => void;
  /** Called when the last byte has arrived. */
  readonly onDownloaded?: () => void;
}

/**
 * Downloads layers, some at a time, and unpacks them in their order into one tree. The first goes
 * straight from the network to the tree; the next wait in a file if they come before their turn.
 * The first failure stops everything, and all is quiet when the call has ended.
 *
 * @returns what was left out, a sentence each
 */
export async function fetchLayers(
  source: ImageSource,
  layers: readonly LayerPlan[],
  options: FetchLayersOptions,
): Promise<readonly string[]> {
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([stop.signal, options.signal]) : stop.signal;
  const blobBytes = layers.reduce((sum, { blob }) => sum + blob.size, 0);
  const isSmall = blobBytes < smallImage.blobBytes;
  await using hashing = openHashing(blobBytes);
  const progress = new Progress(layers, options);
  const memory = { left: isSmall ? smallImage.spoolMemoryBytes : 0 };
  const feeds = layers.map((layer, index) => {
    const file = path.join(options.spoolFolder, `${index}`);
    return { index, layer, spool: index === 0 ? undefined : new LayerSpool(file, memory) };
  });
  // The first layer has its own; with one at a time, the next begin when it is done.
  const others = (options.parallelDownloads ?? defaultDownloads) - 1;
  const fill = fillSpools(feeds.slice(1));
  const downloads = Array.from({ length: Math.min(others, layers.length - 1) }, fill);
  using tree = new TreeWriter(options.tree, options.limits, options);
  const budget = { left: options.limits.unpackedBytes };
  const pieceBytes = isSmall ? smallImage.pieceBytes : undefined;
  const how = { ...options, signal, budget, hashing, pieceBytes };
  try {
    for (const { index, layer, spool } of feeds) {
      const blob = spool?.read() ?? stream(layer);
      try {
        await applyLayer(blob, tree, { ...how, diffId: layer.diffId });
      } catch (error) {
        fail(index, error);
      }
      signal.throwIfAborted();
      if (index === 0 && others < 1) downloads.push(fill());
      await spool?.remove();
      progress.layerDone();
    }
    tree.finish();
    return tree.notes;
  } finally {
    stop.abort(finished);
    await Promise.all(downloads);
  }

  /** Stops everything; the first failure is what the caller gets. */
  function fail(index: number, error: unknown): void {
    stop.abort(within(`layer ${index + 1} of ${layers.length}`, writeFailure(error)));
  }

  async function* stream({ blob }: LayerPlan): AsyncGenerator<Uint8Array> {
    signal.throwIfAborted();
    for await (const chunk of verified(await source.blob(blob, signal), blob, hashing)) {
      signal.throwIfAborted();
      progress.received(chunk.length);
      yield chunk;
    }
  }

  /**
   * A worker that fills spools in order, sharing the queue with the others. As they start in order,
   * a spool that was never begun is behind the one that failed, and nobody waits for it.
   */
  function fillSpools(spools: typeof feeds): () => Promise<void> {
    const queue = spools.values();
    return async () => {
      for (const { index, layer, spool } of queue) {
        try {
          await spool?.fill(stream(layer));
        } catch (error) {
          return fail(index, error);
        }
      }
    };
  }
}

class Progress {
  readonly #layers: readonly LayerPlan[];
  readonly #options: FetchLayersOptions;
  readonly #totalBytes: number;
  #downloadedBytes = 0;
  #layersDone = 0;

  constructor(layers: readonly LayerPlan[], options: FetchLayersOptions) {
    this.#layers = layers;
    this.#options = options;
    this.#totalBytes = layers.reduce((sum, { blob }) => sum + blob.size, 0);
  }

  received(length: number): void {
    this.#downloadedBytes += length;
    if (this.#downloadedBytes === this.#totalBytes) this.#options.onDownloaded?.();
    this.#report();
  }

  layerDone(): void {
    this.#layersDone++;
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({
      downloadedBytes: this.#downloadedBytes,
      totalBytes: this.#totalBytes,
      layersDone: this.#layersDone,
      layerCount: this.#layers.length,
    });
  }
}
